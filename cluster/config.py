"""The options of one node: declared once, read from flags, environment and file.

Every field of `NodeConfig` is one option. Its name gives the key in the file (`peer_listen`), the flag
(`--peer-listen`) and the variable (`RUNSTATE_NODE_PEER_LISTEN`); its annotation gives the type, what `--help` and the
reference say about it, and an example. Nothing else lists the options.

Invariants: a `NodeConfig` that `load` returned has passed every rule of `cluster.config_rules`; its paths are absolute.
A flag wins over the environment, the environment over the file. An empty variable counts as unset.
It must never read a clock, open a socket or create a file, and it never holds a secret, only the path of one.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from cluster.addresses import is_wildcard, parse_address
from cluster.config_rules import broken_rules

ENVIRONMENT_PREFIX = "RUNSTATE_NODE_"
CONFIG_FILE_VARIABLE = ENVIRONMENT_PREFIX + "CONFIG"

# Kubernetes sets these in every pod beside a service called "runstate-node". They are not ours and no mistakes.
_FOREIGN_VARIABLE = re.compile(r"^RUNSTATE_NODE_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_\w+)$")


class ConfigError(ValueError):
    """Options that do not fit. The message has one line a problem: the option, its value and origin, what is right."""


def _option(description: str, example: str) -> Meta:
    return Meta(description=description, examples=[example])


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one node needs to know before it starts. Made by `load`; tests may construct it directly."""

    id: Annotated[str, _option("stable name of this node, never an address", "n1")]
    listen: Annotated[str, _option("address on which clients are served", "0.0.0.0:7070")]
    advertise: Annotated[
        str,
        _option(
            "URL under which clients reach this node; default: http:// and the address of listen",
            "http://10.0.0.1:7070",
        ),
    ] = ""
    peers: Annotated[
        dict[str, str],
        _option("all members with the address of each for the other members, itself included", "n1=10.0.0.1:7080,…"),
    ]
    peer_listen: Annotated[
        str, _option("address on which the other members are heard; default: the own entry of peers", "0.0.0.0:7080")
    ] = ""
    data: Annotated[Path, _option("directory that holds the journal; one node, one directory", "/var/lib/runstate")]
    operator_key_file: Annotated[
        Path | None,
        _option("file with the operator key; without it the operator API is closed", "/etc/runstate/operator.key"),
    ] = None
    tls_ca: Annotated[
        Path | None,
        _option("certificate of the authority that signed the members' certificates", "/etc/runstate/ca.pem"),
    ] = None
    tls_certificate: Annotated[
        Path | None,
        _option("certificate of this node for the other members; it names the node's id", "/etc/runstate/n1.pem"),
    ] = None
    tls_key: Annotated[Path | None, _option("private key of tls_certificate", "/etc/runstate/n1.key")] = None
    allow_plaintext_peers: Annotated[
        bool,
        _option(
            "talk to other members without TLS on addresses that are not loopback: anyone there can forge the log",
            "true",
        ),
    ] = False
    election_timeout_ms: Annotated[
        tuple[int, int],
        _option(
            "shortest and longest time in milliseconds without a leader before a node stands for election", "500,1000"
        ),
    ] = (500, 1000)
    heartbeat_ms: Annotated[int, _option("time in milliseconds between two heartbeats of the leader", "50")] = 50
    log_kept_entries: Annotated[
        int,
        _option(
            "log entries kept behind the image for members that are a little slow; one that needs more gets an image",
            "10000",
        ),
    ] = 10_000
    local: Annotated[bool, _option("all members run on this machine: tell each other the process id", "true")] = False
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _option("least severe lines that are logged", "info")
    ] = "info"
    clock_skew_ms: Annotated[int, _option("for tests: milliseconds added to the wall clock", "0")] = 0
    failpoints: Annotated[
        list[str], _option("for tests: named faults to switch on", "journal.before_commit=fail@2")
    ] = []
    journal_archive: Annotated[
        Path | None, _option("for checkers: directory that gets a copy of every entry", "/var/lib/runstate-archive")
    ] = None


class Option(msgspec.Struct, frozen=True):
    """One option as the declaration has it, for `--help`, the reference and whoever reads values."""

    name: str
    type: Any
    default: Any
    description: str
    example: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT


def _declared() -> dict[str, Option]:
    hints = get_type_hints(NodeConfig, include_extras=True)
    options = {}
    for field in msgspec.structs.fields(NodeConfig):
        kind, meta = get_args(hints[field.name])
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        options[field.name] = Option(field.name, kind, default, meta.description, meta.examples[0])
    return options


OPTIONS: Mapping[str, Option] = _declared()


class _Given(msgspec.Struct, frozen=True):
    """A value as it was written, and where."""

    value: object
    origin: str
    folder: Path


def load(path: str | Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> NodeConfig:
    """Read the options of a node and check them.

    path: a TOML file, or None for the one that `RUNSTATE_NODE_CONFIG` names, or none at all.
    environ: usually `os.environ`. flags: by option name; None means not given; text is read as in the environment.
    Returns a checked configuration. Raises ConfigError with every problem that was found.
    Relative paths belong to the file's folder when they come from the file, else to the working directory.
    """
    problems: list[str] = []
    given: dict[str, _Given] = {}
    file = path or environ.get(CONFIG_FILE_VARIABLE)
    if file:
        given |= _from_file(Path(file), problems)
    given |= _from_environment(environ, problems)
    for name, value in flags.items():
        if value is not None:
            given[name] = _Given(value, OPTIONS[name].flag, Path.cwd())

    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        if name in given:
            try:
                values[name] = _convert(option, given[name])
            except ValueError as error:
                problems.append(f"{name} = {_show(given[name].value)} ({given[name].origin}): {error}")
        elif option.required:
            problems.append(
                f"{name} is not set: {option.description} (for example {option.example}); "
                f"give {option.flag}, {option.variable} or {name} in the file"
            )
    if problems:
        raise ConfigError("\n".join(problems))
    config = _with_defaults(NodeConfig(**values))

    for name, rule in broken_rules(config):
        origin = given[name].origin if name in given else "default"
        problems.append(f"{name} = {_show(getattr(config, name))} ({origin}): {rule}")
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def _with_defaults(config: NodeConfig) -> NodeConfig:
    """Fill in what follows from other options; what does not follow is left empty, and a rule names it."""
    advertise, peer_listen = config.advertise, config.peer_listen
    if not advertise and (address := parse_address(config.listen)) and not is_wildcard(address[0]):
        advertise = f"http://{config.listen}"
    if not peer_listen:
        peer_listen = config.peers.get(config.id, "")
    return msgspec.structs.replace(config, advertise=advertise.rstrip("/"), peer_listen=peer_listen)


def _from_file(path: Path, problems: list[str]) -> dict[str, _Given]:
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"config = {str(path)!r}: cannot be read: {error.strerror}; name a readable TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config = {str(path)!r}: is not TOML: {error}") from None
    origin, folder = f"file {path}", path.resolve().parent
    problems += [f"{name} ({origin}): {_unknown(name, list(OPTIONS))}" for name in content if name not in OPTIONS]
    return {name: _Given(value, origin, folder) for name, value in content.items() if name in OPTIONS}


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, _Given]:
    by_variable = {option.variable: option for option in OPTIONS.values()}
    given = {}
    for variable, value in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or not value or variable == CONFIG_FILE_VARIABLE:
            continue
        if variable in by_variable:
            given[by_variable[variable].name] = _Given(value, variable, Path.cwd())
        elif not _FOREIGN_VARIABLE.match(variable):
            problems.append(f"{variable}: {_unknown(variable, list(by_variable))}")
    return given


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return "is no option" + (f"; did you mean {close[0]}?" if close else f"; the options are {', '.join(known)}")


def _convert(option: Option, given: _Given) -> object:
    """The typed value of what was written. Text such as `a=b,c=d` is split, so that every source can say everything."""
    value = given.value
    kind = get_origin(option.type) or option.type
    if isinstance(value, str) and kind is dict:
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        value = {name.strip(): text.strip() for name, _, text in pairs}
        if len(value) != len(pairs):
            raise ValueError("names one member twice")
    elif isinstance(value, str) and kind in (list, tuple):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, bool) and kind is not bool:
        raise ValueError(f"expected {_expected(option)}")
    try:
        converted = msgspec.convert(
            value, option.type, strict=not isinstance(given.value, str), dec_hook=_path(given.folder)
        )
    except msgspec.ValidationError:
        raise ValueError(f"expected {_expected(option)}") from None
    return converted


def _path(folder: Path) -> Callable[[type, object], Path]:
    def convert(kind: type, value: object) -> Path:
        if not isinstance(value, str) or not value:
            raise ValueError("a path is text")
        return (folder / Path(value).expanduser()).resolve()

    return convert


def _expected(option: Option) -> str:
    words: dict[Any, str] = {
        bool: "true or false",
        int: "a whole number",
        dict: "name=host:port for each member, separated by commas (a table in the file)",
        list: "names separated by commas (an array in the file)",
        tuple: "two whole numbers separated by a comma (an array in the file)",
        Literal: "one of " + ", ".join(str(choice) for choice in get_args(option.type)),
    }
    return words.get(get_origin(option.type) or option.type, "text") + f", for example {option.example}"


def _show(value: object) -> str:
    return repr(str(value)) if isinstance(value, Path | str) else str(value)
