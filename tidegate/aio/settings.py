"""Reads configuration files and environment variables into layers of texts with their origin, weakest first. No other module reads them.

    1. defaults                    the declarations in `tidegate.model.options`
    2. config.yaml                 the file given, else `$TIDEGATE_CONFIG`, else `$TIDEGATE_CONF_DIR/config.yaml`, else none
    3. environment                 `TIDEGATE_` and the key in capitals, with `_` for `.` and `-`
    4. -D key=value                the last one of a key wins

The file is Flink's `config.yaml`: nested or flat keys, in any mix. All problems of all layers are reported at once, each
with its place (`config.yaml line 3`, `TIDEGATE_REST_PORT`, `-D`).
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.configuration import Configuration, Layer, Setting, all_keys
from tidegate.model.masking import SECRETS, is_sensitive

if TYPE_CHECKING:
    import yaml

CONFIG_FILE_NAME = "config.yaml"
CONFIG_VARIABLE = "TIDEGATE_CONFIG"
CONFIG_DIRECTORY_VARIABLE = "TIDEGATE_CONF_DIR"
VARIABLE_PREFIX = "TIDEGATE_"
PRIVATE_PREFIX = "TIDEGATE__"
"""Prefix of the variables that processes pass to their children; they are not options."""
HANDED_VARIABLE = f"{PRIVATE_PREFIX}DEFINITIONS"
COMMAND_LINE = "-D"
_TYPO = 0.7
"""The similarity from which on an unknown variable counts as a misspelt option."""
_SERVICE_VARIABLE = re.compile(
    r"_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)$"
)
_SERVICE_LINK = re.compile(r"_PORT(_\d+_(TCP|UDP|SCTP))?$")
_LINK = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)


def load_settings(
    config_file: str | Path | None = None,
    definitions: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """Reads the configuration of this process. `definitions` are the texts after `-D`; `environment` is `os.environ` by default.

    Raises `ConfigurationError`, which lists every problem, also for a file that cannot be read.
    """
    variables = os.environ if environment is None else environment
    problems: list[str] = []
    layers: list[Layer] = []
    path = find_config_file(config_file, variables)
    if path is not None:
        layers.append(read_config_file(path, problems))
    layers.append(read_environment(variables, problems))
    layers.append(read_definitions(definitions, problems))
    SECRETS.learn({key: setting.text for layer in layers for key, setting in layer.items()})
    return Configuration.from_layers(layers, problems)


def handing_over(definitions: Iterable[str]) -> dict[str, str]:
    """Returns environment variables that pass definitions to a child like `-D`: other users of the machine can read a command line."""
    return {HANDED_VARIABLE: json.dumps(list(definitions))}


def handed_over(environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Removes the definitions of the parent from the environment (`os.environ` by default) and returns them, so that no child of this process has them."""
    variables = os.environ if environment is None else environment
    text = variables.pop(HANDED_VARIABLE, None)
    return [] if text is None else [str(definition) for definition in json.loads(text)]


def find_config_file(config_file: str | Path | None, environment: Mapping[str, str]) -> Path | None:
    """Returns the configuration file to read: the given one, the one that the environment names, or the one in the directory that it names; `None`
    without one."""
    if config_file is not None:
        return Path(config_file)
    if environment.get(CONFIG_VARIABLE):
        return Path(environment[CONFIG_VARIABLE])
    directory = environment.get(CONFIG_DIRECTORY_VARIABLE)
    return Path(directory, CONFIG_FILE_NAME) if directory else None


def read_config_file(path: Path, problems: list[str]) -> dict[str, Setting]:
    """Parses a YAML file into settings with their lines. Problems of the file are added to `problems`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        problems.append(f"cannot read the configuration file {path}: {reason}")
        return {}
    return parse_yaml(text, path.name, problems)


def parse_yaml(text: str, name: str, problems: list[str]) -> dict[str, Setting]:
    """Parses a YAML text into settings. Invalid YAML, a text that is not a mapping and repeated keys are added to `problems`."""
    import yaml  # Imported here since programs without a configuration file would wait for it.

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problems.append(f"{name}{place}: not YAML: {error.problem}")
        return {}
    except yaml.YAMLError as error:
        problems.append(f"{name}: not YAML: {error}")
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        problems.append(f"{name} line 1: expected 'key: value' lines at the top level")
        return {}
    found: dict[str, Setting] = {}
    for key, value, line in _flattened(root, ""):
        if key in found:
            problems.append(f"{name} line {line}: {key} is set twice (first in {found[key].source})")
        found[key] = Setting(value, f"{name} line {line}")
    return found


def read_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Setting]:
    """Parses the settings of environment variables. An unknown `TIDEGATE_` variable that resembles an option's is added to `problems`."""
    keys = {variable_of(key): key for key in reversed(all_keys())}
    found: dict[str, Setting] = {}
    for variable, text in _own_variables(environment):
        if variable in keys:
            found[keys[variable]] = Setting(text, variable)
        elif near := _nearest(variable, keys):
            problems.append(f"environment: unknown variable {variable}; did you mean {near}?")
    return found


def warnings_of_environment(environment: Mapping[str, str] | None = None) -> list[str]:
    """Returns warnings to log once on start: about variables with the prefix that are ignored, since they may be a deployment's own."""
    keys = [variable_of(key) for key in all_keys()]
    variables = [variable for variable, _ in _own_variables(os.environ if environment is None else environment)]
    alone = [variable for variable in variables if variable not in keys and not _nearest(variable, keys)]
    return [f"environment: no options, and left alone: {', '.join(alone)}"] if alone else []


def _own_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for variable, text in sorted(environment.items()):
        if not variable.startswith(VARIABLE_PREFIX) or variable.startswith(PRIVATE_PREFIX):
            continue
        if variable in (CONFIG_VARIABLE, CONFIG_DIRECTORY_VARIABLE) or is_of_kubernetes(variable, text):
            continue
        yield variable, text


def _nearest(variable: str, keys: Iterable[str]) -> str | None:
    """Returns the variable of the option that a misspelt variable probably means; `None` when none is similar."""
    bare = variable.removeprefix(VARIABLE_PREFIX)
    options = {key.removeprefix(VARIABLE_PREFIX): key for key in keys}
    near = difflib.get_close_matches(bare, options, n=1, cutoff=_TYPO)
    near = near or [option for option in options if f"_{bare}_" in f"_{option}_"]
    return options[min(near, key=len)] if near else None


def is_of_kubernetes(variable: str, text: str) -> bool:
    """Tells whether an environment variable was set by Kubernetes for a service named `tidegate` or `tidegate-...`, and is no option.

    These are the service's host and ports (`..._SERVICE_HOST`, `..._SERVICE_PORT`) and the same as links of Docker (`..._PORT_80_TCP_ADDR`). A variable
    that also is an option's name, such as `TIDEGATE_REST_PORT`, counts when its value is a link: `tcp://...`.
    """
    if _SERVICE_LINK.search(variable) and _LINK.match(text):
        return True
    return _SERVICE_VARIABLE.search(variable) is not None and variable not in map(variable_of, all_keys())


def read_definitions(definitions: Sequence[str], problems: list[str]) -> dict[str, Setting]:
    """Parses the settings of the command line's `-D key=value`. One without a key or `=` is added to `problems`."""
    found: dict[str, Setting] = {}
    for definition in definitions:
        key, equals, value = definition.partition("=")
        if equals and key.strip():
            found[key.strip()] = Setting(value.strip(), COMMAND_LINE)
        else:
            shown = "a text without `=`" if is_sensitive(definition) else repr(definition)
            problems.append(f"{COMMAND_LINE}: expected key=value, not {shown}")
    return found


def variable_of(key: str) -> str:
    """Returns the environment variable of an option: `TIDEGATE_REST_PORT` for `rest.port`; keys of tidegate lose their prefix `tidegate.`."""
    return VARIABLE_PREFIX + key.removeprefix("tidegate.").upper().replace(".", "_").replace("-", "_")


def _flattened(node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, str, int]]:
    import yaml  # Imported here as in ``parse_yaml``.

    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value}"
        line = key_node.start_mark.line + 1
        if isinstance(value_node, yaml.MappingNode):
            yield from _flattened(value_node, f"{key}.")
        elif isinstance(value_node, yaml.SequenceNode):
            yield key, ";".join(str(item.value) for item in value_node.value), line
        elif value_node.tag != "tag:yaml.org,2002:null":
            yield key, value_node.value, line
