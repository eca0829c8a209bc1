"""Functions of texts and bytes, after ``SqlFunctionUtils``, ``BinaryStringData`` and the runtime functions of ``table.runtime.functions.scalar`` (2.3).
Positions count code points, except where Flink counts Java's UTF-16 units (LPAD, RPAD, OVERLAY, REPLACE)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
import urllib.parse
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.hashing import hash_array
from tidegate.functions.sql.scalar.casts import caster
from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import arrow_kernel, by_value, elementwise, if_else, null_mask
from tidegate.functions.sql.scalar.registry import Datum, Evaluate, KernelKind, Rows, ScalarCall, as_array, function
from tidegate.functions.sql.scalar.texts import formatter
from tidegate.plan.logical_types import LogicalType, TypeRoot

STRING = LogicalType(TypeRoot.VARCHAR, length=2147483647)
TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def check_texts(call: ScalarCall, *indices: int) -> None:
    """Refuses a call whose operands at ``indices`` (all by default) are not texts."""
    for index in indices or range(len(call.operands)):
        if index < len(call.operands) and call.operands[index].type.root not in (*TEXT, TypeRoot.NULL):
            raise call.refuse()


def _cased(call: ScalarCall, ascii_kernel: Callable[[pa.Array], pa.Array], change: Callable[[str], str]) -> Evaluate:
    check_texts(call)
    slow = by_value(call, change)
    (operand,) = call.operands

    def evaluate(rows: Rows) -> Datum:
        datum = operand.evaluate(rows)
        array = as_array(datum, 1 if isinstance(datum, pa.Scalar) else rows.count)
        if not pc.all(pc.string_is_ascii(array), min_count=0).as_py():
            return slow(rows)
        found = ascii_kernel(array)
        return found[0] if isinstance(datum, pa.Scalar) else found

    return evaluate


@function("UPPER")
def _upper_call(call: ScalarCall) -> Evaluate:
    return _cased(call, pc.ascii_upper, str.upper)


@function("LOWER")
def _lower_call(call: ScalarCall) -> Evaluate:
    return _cased(call, pc.ascii_lower, str.lower)


@function("CHAR_LENGTH", "CHARACTER_LENGTH")
def _char_length_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    return arrow_kernel(call, pc.utf8_length)


@function("OCTET_LENGTH")
def _octet_length_call(call: ScalarCall) -> Evaluate:
    return arrow_kernel(call, pc.binary_length)


@function("INITCAP", kind=KernelKind.DISTINCT)
def _initcap_call(call: ScalarCall) -> Evaluate:
    """Builds INITCAP; only ASCII letters belong to words."""
    check_texts(call)

    def capitalized(text: str) -> str:
        found: list[str] = []
        at_start = True
        for one in text:
            if one.isascii() and one.isalpha():
                found.append(one.upper() if at_start else one.lower())
                at_start = False
            else:
                found.append(one)
                at_start = not ("0" <= one <= "9")
        return "".join(found)

    return by_value(call, capitalized)


@function("SUBSTRING", "SUBSTR")
def _substring_call(call: ScalarCall) -> Evaluate:
    """Builds SUBSTRING from a position, which counts from the end if it is negative; a negative length gives null."""
    root = call.operands[0].type.root
    if root not in (*TEXT, *BYTES):
        raise call.refuse()
    constants = [operand.literal for operand in call.operands[1:] if operand.is_literal]
    text = call.operands[0]
    if len(constants) == len(call.operands) - 1 and constants[0] is not None and constants[0] >= 0 and root in TEXT:
        start = max(constants[0] - 1, 0)
        stop = None if len(constants) == 1 else constants[1]
        if len(constants) == 1 or (stop is not None and stop >= 0):
            end = None if stop is None else start + stop
            wanted = call.arrow
            if end == start:
                return arrow_kernel(call, lambda datum, *rest: if_else(pc.is_valid(datum), "", pa.scalar(None, wanted)))
            return lambda rows: pc.utf8_slice_codeunits(text.evaluate(rows), start, end)

    def cut(value: Any, position: int, length: int | None = None) -> Any:
        if length is not None and length < 0:
            return None
        count = len(value)
        start = position - 1 if position > 0 else count + position if position < 0 else 0
        if start < 0 or start >= count:
            return value[:0]
        return value[start:] if length is None else value[start : start + length]

    return by_value(call, cut)


@function("LEFT", kind=KernelKind.DISTINCT)
def _left_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0)
    return by_value(call, lambda text, count: text[:count] if count > 0 else "")


@function("RIGHT", kind=KernelKind.DISTINCT)
def _right_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0)
    return by_value(call, lambda text, count: text[-count:] if count > 0 else "")


@function("||", "CONCAT")
def _concat_call(call: ScalarCall) -> Evaluate:
    """Builds CONCAT; null if a part is. Bytes are refused, which Flink plans and then fails to compile."""
    if any(operand.type.root in BYTES for operand in call.operands):
        raise call.refuse("String expression type expected.")
    casts = [caster(operand.type, STRING, call.context, call) for operand in call.operands]

    def joined(*arrays: pa.Array) -> pa.Array:
        parts = [array if cast is None else cast(array) for array, cast in zip(arrays, casts, strict=True)]
        return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")

    return elementwise(call, joined)


@function("CONCAT_WS")
def _concat_ws_call(call: ScalarCall) -> Evaluate:
    """Builds CONCAT_WS; null parts are skipped; null if the separator is."""
    check_texts(call)

    def joined(separator: pa.Array, *parts: pa.Array) -> pa.Array:
        found = pc.binary_join_element_wise(*parts, pc.fill_null(separator, ""), null_handling="skip")
        return if_else(separator.is_valid(), found, pa.scalar(None, pa.string()))

    return elementwise(call, joined)


def _trimming(call: ScalarCall, side: str, text: int, characters: int | None) -> Evaluate:
    kernels = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
    strips: dict[str, Callable[[str, str], str]] = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}
    operand = call.operands[text]
    given = " "
    if characters is not None:
        if not call.operands[characters].is_literal:
            strip = strips[side]
            return by_value(call, lambda a, b: strip(a, b) if b else a, columns=[text, characters])
        given = call.operands[characters].literal
    if given is None:
        return lambda rows: pa.scalar(None, pa.string())
    if not given:
        return operand.evaluate
    kernel = kernels[side]
    return lambda rows: kernel(operand.evaluate(rows), characters=given)


@function("TRIM")
def _trim_call(call: ScalarCall) -> Evaluate:
    return _trimming(call, call.literal(0), 2, 1)


@function("LTRIM", "RTRIM", "BTRIM")
def _ltrim_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    side = {"L": "LEADING", "R": "TRAILING", "B": "BOTH"}[call.name[1]]
    return _trimming(call, side, 0, 1 if len(call.operands) > 1 else None)


def units(text: str) -> bytes:
    """Encodes a text as UTF-16 units, two bytes each."""
    return text.encode("utf-16-le", "surrogatepass")


def from_units(text: bytes) -> str:
    """Decodes UTF-16 units; an unpaired surrogate becomes a question mark, as in Java's UTF-8."""
    return text.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode("utf-8")


def _padding(call: ScalarCall, is_left: bool) -> Evaluate:
    check_texts(call, 0, 2)

    def padded(text: str, count: int, pad: str) -> str | None:
        if count < 0 or not pad:
            return None
        have, fill = units(text), units(pad)
        if 2 * count <= len(have):
            return from_units(have[: 2 * count])
        missing = 2 * count - len(have)
        filling = (fill * (missing // len(fill) + 1))[:missing]
        return from_units(filling + have if is_left else have + filling)

    return by_value(call, padded)


@function("LPAD", kind=KernelKind.DISTINCT)
def _lpad_call(call: ScalarCall) -> Evaluate:
    return _padding(call, True)


@function("RPAD", kind=KernelKind.DISTINCT)
def _rpad_call(call: ScalarCall) -> Evaluate:
    return _padding(call, False)


@function("REPEAT", kind=KernelKind.DISTINCT)
def _repeat_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0)
    return by_value(call, lambda text, count: text * max(count, 0))


@function("REVERSE")
def _reverse_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    return arrow_kernel(call, pc.utf8_reverse)


@function("REPLACE")
def _replace_call(call: ScalarCall) -> Evaluate:
    check_texts(call)
    if all(operand.is_literal and operand.literal for operand in call.operands[1:2]) and call.operands[2].is_literal:
        pattern, replacement = call.literal(1), call.literal(2)
        if replacement is not None:
            text = call.operands[0]
            return lambda rows: pc.replace_substring(text.evaluate(rows), pattern=pattern, replacement=replacement)

    def replaced(text: str, search: str, replacement: str) -> str:
        if search:
            return text.replace(search, replacement)
        have, fill = units(text), units(replacement)
        return from_units(fill + b"".join(have[at : at + 2] + fill for at in range(0, len(have), 2)))

    return by_value(call, replaced)


@function("OVERLAY", kind=KernelKind.DISTINCT)
def _overlay_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)

    def overlaid(text: str, other: str, start: int, length: int | None = None) -> str:
        have, fill = units(text), units(other)
        if start <= 0 or 2 * start > len(have):
            return text
        length = len(fill) // 2 if length is None else length
        rest = have[2 * (start - 1 + length) :] if length > 0 else have[:0]  # Flink leaves out all that follows then
        return from_units(have[: 2 * (start - 1)] + fill + rest)

    return by_value(call, overlaid)


@function("ASCII", kind=KernelKind.DISTINCT)
def _ascii_call(call: ScalarCall) -> Evaluate:
    """Builds ASCII: the first UTF-8 byte, signed; 0 for an empty text."""
    check_texts(call)

    def first(text: str) -> int:
        byte = text.encode()[0] if text else 0
        return byte - 256 if byte > 127 else byte

    return by_value(call, first)


@function("CHR", kind=KernelKind.DISTINCT)
def _chr_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda code: "" if code < 0 else chr(code & 0xFF))


@function("POSITION", kind=KernelKind.DISTINCT)
def _position_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)
    return by_value(call, lambda search, text, start=1: text.find(search, max(start - 1, 0)) + 1 if start > 0 else 0)


@function("LOCATE", kind=KernelKind.DISTINCT)
def _locate_call(call: ScalarCall) -> Evaluate:
    return _position_call(call)


@function("INSTR", kind=KernelKind.DISTINCT)
def _instr_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0, 1)
    if len(call.operands) > 2:
        raise call.refuse("its arguments for the start and the occurrence cannot be used")
    return by_value(call, lambda text, search: text.find(search) + 1)


@function("SPLIT_INDEX", kind=KernelKind.DISTINCT)
def _split_index_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0)

    def part(text: str, separator: str | int, index: int) -> str | None:
        if index < 0 or not text:
            return None
        if isinstance(separator, int):
            if not 0 <= separator <= 0x10FFFF:
                return None
            separator = chr(separator)
        parts = text.split(separator) if separator else text.split()
        return parts[index] if index < len(parts) else None

    return by_value(call, part)


@function("SPLIT", kind=KernelKind.DISTINCT)
def _split_call(call: ScalarCall) -> Evaluate:
    check_texts(call)

    def parts(text: str, separator: str) -> list[str]:
        if not text:
            return []
        return text.split(separator) if separator else list(text)

    return by_value(call, parts)


@function("STR_TO_MAP", kind=KernelKind.DISTINCT)
def _str_to_map_call(call: ScalarCall) -> Evaluate:
    """Builds STR_TO_MAP; the separators are regular expressions."""
    check_texts(call)

    def parsed(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
        if not text:
            return []
        found: dict[str, str | None] = {}
        parts = re.split(between, text)
        while parts and not parts[-1]:
            parts.pop()
        for part in parts:
            pair = re.split(inside, part, maxsplit=1)
            found[pair[0]] = pair[1] if len(pair) == 2 else None
        return list(found.items())

    return by_value(call, parsed)


def _hash(name: str, algorithm: str) -> None:
    @function(name, kind=KernelKind.DISTINCT)
    def build(call: ScalarCall) -> Evaluate:
        if call.operands[0].type.root not in (*TEXT, *BYTES):
            raise call.refuse()
        return by_value(call, lambda value: hashlib.new(algorithm, _bytes(value)).hexdigest())


for _name, _algorithm in (
    ("MD5", "md5"),
    ("SHA1", "sha1"),
    ("SHA224", "sha224"),
    ("SHA256", "sha256"),
    ("SHA384", "sha384"),
    ("SHA512", "sha512"),
):
    _hash(_name, _algorithm)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


@function("SHA2", kind=KernelKind.DISTINCT)
def _sha2_call(call: ScalarCall) -> Evaluate:
    check_texts(call, 0)

    def digest(text: str, bits: int) -> str:
        if bits not in (224, 256, 384, 512):
            raise EvaluationError(f"SHA2: {bits} is not a length of a hash, which is 224, 256, 384 or 512")
        return hashlib.new(f"sha{bits}", text.encode()).hexdigest()

    return by_value(call, digest)


@function("TO_BASE64", kind=KernelKind.DISTINCT)
def _to_base64_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda value: base64.b64encode(_bytes(value)).decode())


@function("FROM_BASE64", kind=KernelKind.DISTINCT)
def _from_base64_call(call: ScalarCall) -> Evaluate:
    def decoded(text: str) -> str:
        try:
            return base64.b64decode(text, validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise EvaluationError(f"FROM_BASE64: {text!r} is not Base64: {error}") from error

    return by_value(call, decoded)


@function("HEX", kind=KernelKind.DISTINCT)
def _hex_call(call: ScalarCall) -> Evaluate:
    return by_value(
        call, lambda value: f"{value % (1 << 64):X}" if isinstance(value, int) else _bytes(value).hex().upper()
    )


@function("UNHEX", kind=KernelKind.DISTINCT)
def _unhex_call(call: ScalarCall) -> Evaluate:
    """Builds UNHEX. Of an odd number of digits the first becomes a zero byte, whichever it is, as in Flink."""

    def decoded(text: str) -> bytes | None:
        try:
            digits = text.encode()
            if len(digits) % 2:
                binascii.unhexlify(b"0" + digits[:1])
                digits = b"00" + digits[1:]
            return binascii.unhexlify(digits)
        except (binascii.Error, ValueError):
            return None

    return by_value(call, decoded)


@function("BIN", kind=KernelKind.DISTINCT)
def _bin_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda value: f"{value % (1 << 64):b}")


@function("ENCODE", kind=KernelKind.DISTINCT)
def _encode_call(call: ScalarCall) -> Evaluate:
    """Builds ENCODE; UTF-16 is big-endian with a byte order mark, as in Java."""

    def encoded(text: str, charset: str) -> bytes:
        name = _charset(call, charset)
        if name.upper() == "UTF-16":
            return f"\ufeff{text}".encode("utf-16-be", "replace") if text else b""
        return text.encode(name, "replace")

    return by_value(call, encoded)


@function("DECODE", kind=KernelKind.DISTINCT)
def _decode_call(call: ScalarCall) -> Evaluate:
    """Builds DECODE; UTF-16 without a byte order mark is big-endian, as in Java."""

    def decoded(value: bytes, charset: str) -> str:
        name = _charset(call, charset)
        if name.upper() == "UTF-16" and value[:2] not in (b"\xfe\xff", b"\xff\xfe"):
            name = "UTF-16BE"
        return value.decode(name, "replace")

    return by_value(call, decoded)


def _charset(call: ScalarCall, name: str) -> str:
    known = {"US-ASCII", "ISO-8859-1", "UTF-8", "UTF-16BE", "UTF-16LE", "UTF-16"}
    if name.upper() not in known:
        raise EvaluationError(f"{call.name}: unknown character set {name!r}; known are {', '.join(sorted(known))}")
    return name


@function("ELT", kind=KernelKind.VALUES)
def _elt_call(call: ScalarCall) -> Evaluate:
    def chosen(index: int | None, *values: Any) -> Any:
        return values[index - 1] if index is not None and 1 <= index <= len(values) else None

    return by_value(call, chosen, is_strict=False)


@function("TRANSLATE3", "TRANSLATE", kind=KernelKind.DISTINCT)
def _translate_call(call: ScalarCall) -> Evaluate:
    check_texts(call)

    def translated(text: str, source: str, target: str) -> str:
        table: dict[int, str | None] = {}
        for index, one in enumerate(source):
            table.setdefault(ord(one), target[index] if index < len(target) else None)
        return text.translate(table)

    return by_value(call, translated)


@function("STARTSWITH", kind=KernelKind.DISTINCT)
def _startswith_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda value, start: value.startswith(start))


@function("ENDSWITH", kind=KernelKind.DISTINCT)
def _endswith_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda value, end: value.endswith(end))


@function("URL_ENCODE", kind=KernelKind.DISTINCT)
def _url_encode_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda text: urllib.parse.quote_plus(text, safe="*").replace("~", "%7E"))


@function("URL_DECODE", kind=KernelKind.DISTINCT)
def _url_decode_call(call: ScalarCall) -> Evaluate:
    def decoded(text: str) -> str | None:
        if re.search("%(?![0-9A-Fa-f]{2})", text):
            return None
        return urllib.parse.unquote_plus(text, errors="replace")

    return by_value(call, decoded)


@function("PARSE_URL", kind=KernelKind.DISTINCT)
def _parse_url_call(call: ScalarCall) -> Evaluate:
    check_texts(call)

    def part(text: str, name: str, key: str | None = None) -> str | None:
        try:
            url = urllib.parse.urlsplit(text)
        except ValueError:
            return None
        if not url.scheme:
            return None
        if key is not None:
            if name != "QUERY":
                return None
            match = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", url.query)
            return match[1] if match else None
        query = url.query if "?" in text.split("#", 1)[0] else None
        match name:
            case "HOST":
                return re.sub(r":\d*$", "", url.netloc.rpartition("@")[2])
            case "PATH":
                return url.path
            case "QUERY":
                return query
            case "REF":
                return url.fragment if "#" in text else None
            case "PROTOCOL":
                return url.scheme
            case "FILE":
                return url.path if query is None else f"{url.path}?{query}"
            case "AUTHORITY":
                return url.netloc
            case "USERINFO":
                return url.netloc.rpartition("@")[0] or None
        return None

    return by_value(call, part)


@function("IS_ALPHA", kind=KernelKind.DISTINCT)
def _is_alpha_call(call: ScalarCall) -> Evaluate:
    return _test(call, str.isalpha)


@function("IS_DIGIT", kind=KernelKind.DISTINCT)
def _is_digit_call(call: ScalarCall) -> Evaluate:
    return _test(call, str.isdecimal)


@function("IS_DECIMAL", kind=KernelKind.DISTINCT)
def _is_decimal_call(call: ScalarCall) -> Evaluate:
    number = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfFlL]?", re.ASCII)
    return _test(call, lambda text: number.fullmatch(text) is not None)


def _test(call: ScalarCall, test: Callable[[str], bool]) -> Evaluate:
    """Builds a test that is false for null."""
    if call.operands[0].type.root not in TEXT:
        return lambda rows: pc.is_valid(call.operands[0].evaluate(rows))
    tested = by_value(call, test)
    return lambda rows: pc.fill_null(tested(rows), False)


@function("HASH_CODE", kind=KernelKind.DISTINCT)
def _hash_code_call(call: ScalarCall) -> Evaluate:
    if call.operands[0].type.root not in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return elementwise(call, _hash_code)

    def hashed(text: str) -> int:
        value = 0
        for unit in np.frombuffer(units(text), "<u2").tolist():
            value = (value * 31 + unit) & 0xFFFFFFFF
        value = value - (1 << 32) if value >= 1 << 31 else value
        return -value if -(1 << 31) < value < 0 else value

    return by_value(call, hashed)


def _hash_code(array: pa.Array) -> pa.Array:
    """Hashes numbers and times. Flink distributes rows of a distinct aggregate by it, and nothing else depends on it."""
    return pa.array(np.abs(hash_array(array).view(np.int32)), pa.int32(), mask=null_mask(array))


@function("PRINTF", kind=KernelKind.VALUES)
def _printf_call(call: ScalarCall) -> Evaluate:
    """Builds PRINTF, with the conversions d, s, f, x, X, c, b, e, n and % of ``String.format``."""
    writers = [formatter(operand.type, call.context.time_zone) for operand in call.operands[1:]]
    pattern = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(\.\d+)?([dsfxXcbBeESn%])")

    def formatted(text: str | None, *values: Any) -> str | None:
        if text is None:
            return None
        rest = iter(range(len(values)))

        def one(match: re.Match[str]) -> str:
            letter = match[5]
            if letter in "n%":
                return "\n" if letter == "n" else "%"
            index = int(match[1]) - 1 if match[1] else next(rest)
            value = values[index]
            flags, width, precision = match[2], match[3] or "", match[4] or ""
            if letter in "sSbBc" or value is None:
                shown = "null" if value is None else writers[index](value)
                if isinstance(value, bool):
                    shown = shown.lower()
                if precision:
                    shown = shown[: int(precision[1:])]
                shown = shown.upper() if letter in "SB" else shown
                return shown.ljust(int(width or 0)) if "-" in flags else shown.rjust(int(width or 0))
            if letter in "xX" and value < 0:
                bits = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32}.get(
                    call.operands[index + 1].type.root, 64
                )
                value %= 1 << bits
            kept = flags.replace("(", "").replace("-", "<").replace(",", "")
            comma = "," if "," in flags else ""
            fill = "0" if "0" in kept else ""
            sign = "+" if "+" in kept else " " if " " in kept else ""
            align = "<" if "<" in kept else ""
            number = float(value) if letter in "eE" and isinstance(value, Decimal) else value
            return format(number, f"{align}{sign}{fill}{width}{comma}{precision}{letter}")

        try:
            return pattern.sub(one, text)
        except (StopIteration, IndexError, ValueError, TypeError):
            return None

    return by_value(call, formatted, is_strict=False)


@function("UUID", kind=KernelKind.VALUES)
def _uuid_call(call: ScalarCall) -> Evaluate:
    return lambda rows: pa.array([str(uuid.uuid4()) for _ in range(rows.count)], pa.string())


@function("RAND", kind=KernelKind.NUMPY)
def _rand_call(call: ScalarCall) -> Evaluate:
    if call.operands:
        raise call.refuse("it cannot take a seed")
    generator = np.random.default_rng(secrets.randbits(64))
    return lambda rows: pa.array(generator.random(rows.count))


@function("RAND_INTEGER", kind=KernelKind.NUMPY)
def _rand_integer_call(call: ScalarCall) -> Evaluate:
    if len(call.operands) != 1:
        raise call.refuse("it cannot take a seed")
    generator = np.random.default_rng(secrets.randbits(64))
    (bound,) = call.operands

    def evaluate(rows: Rows) -> Datum:
        bounds = bound.values(rows)
        if pc.any(pc.less_equal(bounds, 0)).as_py():
            raise EvaluationError("RAND_INTEGER: the bound must be above 0")
        top = bounds.fill_null(1).to_numpy(zero_copy_only=False)
        mask = bounds.is_null().to_numpy(zero_copy_only=False)
        return pa.array(generator.integers(0, top).astype(np.int32), mask=mask)

    return evaluate
