"""Build the wheel and the sdist of the commit at hand, check them and what a release stands on.

Everything happens in clones of the commit: what is not committed is neither checked nor built. What was checked is
left in ``dist`` (wheel and sdist) and in ``build/release`` (the SBOM). Run it with the tools of ``make dist``.

Exit status 0 means that nothing was found that speaks against a release.
"""

from __future__ import annotations

import argparse
import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

CHECKOUT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "airflow-provider-analytics"
PACKAGE = "airflow_provider_analytics"
UV = CHECKOUT / ".tools" / "bin" / "uv"
TOOLS = Path(sys.executable).parent
#: The pins of what builds and checks; below the checkout or a clone of it.
TOOL_PINS = "constraints/release.txt"
#: The pins that the SBOM names.
PINS = "constraints/airflow-3.3.2.txt"
DIST = CHECKOUT / "dist"
SBOM = CHECKOUT / "build" / "release" / f"{DISTRIBUTION}.cdx.json"

#: What the package consists of.
ENTRIES = {
    "__init__.py",
    "__main__.py",
    "api",
    "assets.py",
    "commands",
    "exceptions.py",
    "get_provider_info.py",
    "hooks",
    "operators",
    "probe",
    "py.typed",
    "readable.py",
    "reconcile",
    "sandbox",
    "snapshots",
    "storage.py",
    "guards.py",
}
#: All files of the package that are no Python.
DATA_FILES = {
    "py.typed",
    "reconcile/websites.schema.json",
    "snapshots/manifest.schema.json",
    "snapshots/report.html.j2",
}
TESTS = re.compile(r"(^|/)(tests?|test_\w+\.py|conftest\.py)(/|$)")
METADATA_FILES = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
ENTRY_POINTS = {
    "console_scripts": {"airflow-provider-analytics": f"{PACKAGE}.commands:main"},
    "apache_airflow_provider": {"provider_info": f"{PACKAGE}.get_provider_info:get_provider_info"},
    "pytest11": {"analytics_sandbox": f"{PACKAGE}.sandbox.pytest_plugin"},
}
#: What actionlint checks, and nothing that depends on the machine; zizmor is the judge of what is safe.
ACTIONLINT = ("--profile=correctness", "--strict-exit", "--shellcheck=", "--pyflakes=")
URLS = {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


class ReleaseError(Exception):
    """What speaks against a release."""


@dataclass(frozen=True)
class Release:
    """The commit at hand.

    :param clone: a clone of it.
    :param work: folder for what the checks make.
    :param wheel: the wheel; it is there after :func:`builds`.
    :param sdist: the sdist, likewise.
    """

    clone: Path
    work: Path
    wheel: Path
    sdist: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tagged", action="store_true", help="fail unless the commit has its tag")
    must_be_tagged = parser.parse_args().tagged
    changed = run("git", "status", "--porcelain").splitlines()
    if changed:
        say(f"note    {len(changed)} uncommitted changes are neither checked nor built")
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        work = Path(folder)
        clone = clone_into(work / "one" / "checkout")
        version = version_of(clone)
        name = DISTRIBUTION.replace("-", "_")
        release = Release(clone, work, DIST / f"{name}-{version}-py3-none-any.whl", DIST / f"{name}-{version}.tar.gz")
        checks: Mapping[str, Callable[[Release], str]] = {
            "version": lambda release: versions(release, must_be_tagged=must_be_tagged),
            "builds": builds,
            "contents": contents,
            "metadata": metadata,
            "links": links,
            "sbom": sbom,
            "workflows": workflows,
        }
        failed: list[str] = []
        for title, check in checks.items():
            if "builds" in failed:
                say(f"not run {title}: nothing was built")
                continue
            try:
                say(f"ok      {title}: {check(release)}")
            except ReleaseError as error:
                say(f"FAILED  {title}: {error}")
                failed.append(title)
    say(f"Speaks against a release: {', '.join(failed)}" if failed else "Nothing speaks against a release")
    return int(bool(failed))


# Version, changelog and tag


def version_of(checkout: Path) -> str:
    text = (checkout / PACKAGE / "__init__.py").read_text()
    [version] = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return str(version)


def versions(release: Release, *, must_be_tagged: bool) -> str:
    """Compare the version, the newest heading of the changelog, and the tags of the commit."""
    changelog = (release.clone / "CHANGELOG.md").read_text()
    tags = run("git", "tag", "--points-at", "HEAD", "--list", "v*").split()
    version = version_of(release.clone)
    if must_be_tagged and not tags:
        raise ReleaseError("the commit has no tag v<version>")
    problem = version_problem(version, changelog, tags)
    if problem:
        raise ReleaseError(problem)
    return f"{version} in the package and in CHANGELOG.md, {f'tagged {tags[0]}' if tags else 'not tagged'}"


def version_problem(version: str, changelog: str, tags: Sequence[str]) -> str:
    """Return what does not fit together, or an empty text.

    A version is developed under the heading ``<version> (unreleased)``, and released under ``<version> (<date>)``.
    """
    found = re.search(r"^## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", changelog, re.MULTILINE)
    first = re.search(r"^## .*$", changelog, re.MULTILINE)
    if found is None or first is None or found[0] != first[0]:
        shown = first[0] if first else "none"
        return f"the newest heading of CHANGELOG.md is no '## <version> (<date> or unreleased)': {shown}"
    if found[1] != version:
        return f"CHANGELOG.md begins with {found[1]}, the version of the package is {version}"
    if tags and list(tags) != [f"v{version}"]:
        return f"the commit is tagged {', '.join(tags)}, the version of the package is {version}"
    if tags and found[2] == "unreleased":
        return f"the commit is tagged {tags[0]}, CHANGELOG.md calls {version} unreleased"
    return ""


# Wheel and sdist


def builds(release: Release) -> str:
    """Build everything three times, so that nothing but the commit can be what the files depend on.

    The second clone has another path, umask, time zone and language, and its files are years old. The third wheel is
    built from the sdist, without a repository.
    """
    again = clone_into(release.work / "another" / "and longer" / "folder", umask=0o077)
    for path in again.rglob("*"):
        os.utime(path, (978_307_200, 978_307_200), follow_symlinks=False)
    elsewhere = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    unpacked = release.work / "unpacked"
    shutil.rmtree(DIST, ignore_errors=True)
    build(release.clone, DIST, "--wheel", "--sdist")
    made = sorted(path.name for path in DIST.iterdir() if path.name != ".gitignore")
    if made != sorted([release.wheel.name, release.sdist.name]):
        raise ReleaseError(f"built {made}")
    build(again, release.work / "again", "--wheel", "--sdist", umask=0o077, env=elsewhere)
    with tarfile.open(release.sdist) as archive:
        archive.extractall(unpacked, filter="data")
    [source] = unpacked.iterdir()
    build(source, release.work / "from-sdist", "--wheel", umask=0o077, env=elsewhere)
    for first, second in (
        (release.wheel, release.work / "again" / release.wheel.name),
        (release.sdist, release.work / "again" / release.sdist.name),
        (release.wheel, release.work / "from-sdist" / release.wheel.name),
    ):
        if first.read_bytes() != second.read_bytes():
            raise ReleaseError(f"{second.relative_to(release.work)} differs: {difference(first, second)}")
    sums = "; ".join(f"{digest(path)}  {path.name}" for path in (release.wheel, release.sdist))
    return f"the same bytes from two clones and from the sdist; {sums}"


def clone_into(target: Path, *, umask: int = 0o022) -> Path:
    target.parent.mkdir(parents=True)
    run("git", "clone", "--quiet", str(CHECKOUT), str(target), umask=umask)
    return target


def build(source: Path, target: Path, *what: str, umask: int = 0o022, env: Mapping[str, str] | None = None) -> None:
    when = run("git", "log", "-1", "--format=%ct").strip()
    pins = ["--build-constraints", str(CHECKOUT / TOOL_PINS), "--require-hashes"]
    command = [str(UV), "build", "--quiet", *pins, *what, "--out-dir", str(target), str(source)]
    run(*command, env={"SOURCE_DATE_EPOCH": when, **(env or {})}, umask=umask)


def difference(one: Path, other: Path) -> str:
    """Return which entries of two archives differ, or that only the archives do."""
    first, second = dict(entries(one)), dict(entries(other))
    names = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    return ", ".join(names) or "the same entries, packed in another way"


def entries(archive: Path) -> Iterator[tuple[str, object]]:
    """Yield each entry's name, and what else is kept of it."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for info in wheel.infolist():
                yield info.filename, (wheel.read(info), info.date_time, info.external_attr)
        return
    with tarfile.open(archive) as sdist:
        for member in sdist:
            content = sdist.extractfile(member)
            yield member.name, (content.read() if content else b"", member.mtime, member.mode, member.uid, member.uname)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def contents(release: Release) -> str:
    problems = content_problems(release.wheel)
    if problems:
        raise ReleaseError("; ".join(problems))
    return f"{len(zipfile.ZipFile(release.wheel).namelist())} files, all of them expected"


def content_problems(wheel: Path) -> list[str]:
    """Return what is in a wheel and should not be, and what is missing."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        about = f"{wheel.name.split('-py3-')[0]}.dist-info"
        package = {name.removeprefix(f"{PACKAGE}/") for name in names if name.startswith(f"{PACKAGE}/")}
        described = {name.removeprefix(f"{about}/") for name in names if name.startswith(f"{about}/")}
        points = configparser.ConfigParser()
        if "entry_points.txt" in described:
            points.read_string(archive.read(f"{about}/entry_points.txt").decode())
        description = archive.read(f"{about}/METADATA").decode() if "METADATA" in described else ""
    top = {name.partition("/")[0] for name in package}
    data = {name for name in package if not name.endswith(".py")}
    urls = set(re.findall(r"^Project-URL: (\w+), https://", description, re.MULTILINE))
    given = {section: dict(points[section]) for section in points.sections()}
    compared: dict[str, tuple[set[str], set[str]]] = {
        "the wheel": ({name.partition("/")[0] for name in names}, {PACKAGE, about}),
        "the package": (top, ENTRIES),
        "files that are no Python": (data, DATA_FILES),
        "tests": (
            {name for name in package if re.search(r"(^|/)(tests?|test_\w+\.py|conftest\.py)(/|$)", name)},
            set(),
        ),
        "metadata": (described, METADATA_FILES),
        "project URLs": (urls, URLS),
        "entry points": (
            {f"{group}:{name}={value}" for group, all_of in given.items() for name, value in all_of.items()},
            {f"{group}:{name}={value}" for group, all_of in ENTRY_POINTS.items() for name, value in all_of.items()},
        ),
    }
    return [
        f"{where}: {name} {'is not expected' if name in found else 'is missing'}"
        for where, (found, expected) in compared.items()
        for name in sorted(found ^ expected)
    ]


# Metadata


def metadata(release: Release) -> str:
    run(str(TOOLS / "twine"), "--no-color", "check", "--strict", str(release.wheel), str(release.sdist))
    return "twine check --strict passes for wheel and sdist"


def links(release: Release) -> str:
    """Hold the description to what a package index can show: it has no files beside it."""
    import readme_renderer.markdown

    with zipfile.ZipFile(release.wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        description = archive.read(name).decode().partition("\n\n")[2]
    rendered = readme_renderer.markdown.render(description)
    if rendered is None:
        raise ReleaseError("the description cannot be rendered")
    found = relative_targets(rendered)
    if found:
        raise ReleaseError(f"{len(found)} links or pictures of the description are relative: {', '.join(found)}")
    return "no link and no picture of the description is relative"


def relative_targets(html: str) -> list[str]:
    """Return where links and pictures lead that need files beside the text; ``#section`` does not."""
    found: list[str] = []

    class Finder(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            for name, value in attributes:
                if name in ("href", "src") and value and not value.startswith("#") and not urlsplit(value).scheme:
                    found.append(value)

    Finder().feed(html)
    return found


# SBOM


def sbom(release: Release) -> str:
    """List the wheel, and all that is installed with it by the pins, as CycloneDX with the hash of each file."""
    python = release.work / "installed" / "bin" / "python"
    run(str(UV), "venv", "--quiet", "--python", sys.executable, str(python.parents[1]))
    pins, lock = release.clone / PINS, release.work / "pylock.toml"
    # Installed by the hashes that are listed: so they are those of what was installed.
    wanted = release.work / "wanted.in"
    wanted.write_text(f"{DISTRIBUTION} @ {release.wheel.as_uri()}\n")
    only = ("--no-emit-package", DISTRIBUTION, "--python", str(python), "--constraint", str(pins))
    run(str(UV), "pip", "compile", "--quiet", "--format", "pylock.toml", *only, "--output-file", str(lock), str(wanted))
    # Nothing is started there: to compile what is installed would take most of the time.
    for what in (("--requirement", str(lock)), ("--no-deps", str(release.wheel))):
        run(*(str(UV), "pip", "install", "--quiet", "--python", str(python), *what), env={"UV_COMPILE_BYTECODE": "0"})
    raw = run(
        *(str(TOOLS / "cyclonedx-py"), "environment", "--output-reproducible", "--spec-version", "1.6", str(python)),
        env={"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()},
    )
    document = about_the_wheel(json.loads(raw), digest(release.wheel))
    document = with_hashes(document, hashes_of(tomllib.loads(lock.read_text())))
    SBOM.parent.mkdir(parents=True, exist_ok=True)
    SBOM.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    check_the_sbom(SBOM.read_text())
    strays = stray_components(document, pinned(pins.read_text()))
    if strays:
        raise ReleaseError("; ".join(strays))
    number = len(document["components"])
    return f"{SBOM.relative_to(CHECKOUT)} is valid: {number} components with hashes, each as {PINS} pins it"


def about_the_wheel(document: dict[str, Any], sha256: str) -> dict[str, Any]:
    """Return the SBOM of an environment as that of the wheel that was installed there, with no path of this machine."""
    [wheel] = [found for found in document["components"] if found["name"] == DISTRIBUTION]
    wheel["purl"] = f"pkg:pypi/{DISTRIBUTION}@{wheel['version']}"
    wheel["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    wheel["externalReferences"] = [
        known for known in wheel.get("externalReferences", []) if not known["url"].startswith("file:")
    ]
    components = [found for found in document["components"] if found is not wheel]
    return {**document, "metadata": {**document["metadata"], "component": wheel}, "components": components}


def hashes_of(lock: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of the file of each package that an installer takes here, by the name of the package."""
    rank = {tag: number for number, tag in enumerate(sys_tags())}
    found: dict[str, str] = {}
    for package in lock["packages"]:
        ranked = [
            (min(rank[tag] for tag in tags), wheel["hashes"]["sha256"])
            for wheel in package.get("wheels", ())
            if (tags := parse_wheel_filename(unquote(urlsplit(wheel["url"]).path).rpartition("/")[2])[3] & rank.keys())
        ]
        found[canonicalize_name(package["name"])] = min(ranked)[1] if ranked else package["sdist"]["hashes"]["sha256"]
    return found


def with_hashes(document: dict[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return an SBOM whose components have hashes.

    :raises ReleaseError: if one has none.
    """
    missing = [found["name"] for found in document["components"] if canonicalize_name(found["name"]) not in hashes]
    if missing:
        raise ReleaseError(f"no hash is known of {', '.join(missing)}")
    components = [
        {**found, "hashes": [{"alg": "SHA-256", "content": hashes[canonicalize_name(found["name"])]}]}
        for found in document["components"]
    ]
    return {**document, "components": components}


def check_the_sbom(text: str) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ReleaseError(f"the SBOM is not valid CycloneDX: {problem}")
    if "file:" in text:
        raise ReleaseError("the SBOM has a path of this machine")


def pinned(constraints: str) -> dict[str, str]:
    """Return the versions of a file of constraints that hold for this Python."""
    found = (Requirement(line) for line in constraints.splitlines() if not line.startswith("#"))
    return {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in found
        if pin.marker is None or pin.marker.evaluate()
    }


def stray_components(document: dict[str, Any], pins: Mapping[str, str]) -> list[str]:
    """Return the components that are not pinned, or that the wheel does not need."""
    needs = {entry["ref"]: set(entry.get("dependsOn", ())) for entry in document["dependencies"]}
    reached: set[str] = set()
    left = {document["metadata"]["component"]["bom-ref"]}
    while left:
        reached |= left
        left = {ref for found in left for ref in needs.get(found, ())} - reached
    problems = []
    for component in document["components"]:
        name = canonicalize_name(component["name"])
        if pins.get(name) != component["version"]:
            problems.append(f"{name} {component['version']} is not what is pinned: {pins.get(name)}")
        if component["bom-ref"] not in reached:
            problems.append(f"{name} is nothing that the wheel needs")
    return problems


# Files of the repository


def workflows(release: Release) -> str:
    """Check what GitHub reads: workflows, dependabot.yml, issue forms."""
    folder = release.clone / ".github"
    # Those of the page for users: one for GitHub, one for GitLab.
    page = (release.clone / "docs" / "websites_in_git.md").read_text(encoding="utf-8")
    of_github, of_gitlab = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (folder / "workflows" / "websites_in_git.yml").write_text(of_github, encoding="utf-8")
    gitlab = release.clone / ".gitlab-ci.yml"
    gitlab.write_text(of_gitlab, encoding="utf-8")
    files = sorted(str(path) for path in (folder / "workflows").glob("*.yml"))
    forms = sorted(str(path) for path in (folder / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
    schema = (str(TOOLS / "check-jsonschema"), "--builtin-schema")
    run(str(TOOLS / "jactionlint"), *ACTIONLINT, *files, cwd=release.clone)
    run(str(TOOLS / "zizmor"), "--offline", "--no-progress", str(folder), cwd=release.clone)
    run(*schema, "vendor.github-workflows", *files)
    run(*schema, "custom.github-workflows-require-timeout", *files)
    run(*schema, "vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(gitlab))
    run(*schema, "vendor.dependabot", str(folder / "dependabot.yml"))
    run(*schema, "vendor.github-issue-forms", *forms)
    run(*schema, "vendor.github-issue-config", str(folder / "ISSUE_TEMPLATE" / "config.yml"))
    return f"{len(files)} workflows, dependabot.yml and {len(forms)} forms pass actionlint's checks, zizmor and schemas"


def run(*command: str, env: Mapping[str, str] | None = None, cwd: Path = CHECKOUT, umask: int = 0o022) -> str:
    """Run a command to its end and return what it wrote.

    :raises ReleaseError: with what it said, if it failed.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=umask,
        check=False,
    )
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise ReleaseError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}:\n{said}")
    return done.stdout.strip()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
