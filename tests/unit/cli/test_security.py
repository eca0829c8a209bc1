"""`tidegate security`, as a person types it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tidegate.cli.main import main
from tidegate.security.user_file import read_users
from tidegate.security.users import Role, User, Users

USERS = "tidegate.security.users.file"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["security", *arguments])
    return result.exit_code, result.output


def test_users_come_and_go(tmp_path: Path) -> None:
    file = str(tmp_path / "users")
    code, token = run("add-user", "ada", "--role", "operate", "--file", file)
    assert code == 0
    assert Users(read_users(Path(file))).of_token(token.strip()) == User("ada", Role.OPERATE)
    assert run("add-user", "ci", "--role", "deploy", "-D", f"{USERS}={file}")[0] == 0
    assert run("list-users", "--file", file) == (0, "ada\toperate\nci\tdeploy\n")
    assert run("remove-user", "ada", "--file", file) == (0, "ada is removed.\n")
    assert run("list-users", "--file", file) == (0, "ci\tdeploy\n")
    assert run("remove-user", "ada", "--file", file)[0] == 2
    assert run("list-users") == (2, f"error: which file? Give --file, or set {USERS}\n")
