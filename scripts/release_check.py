# SPDX-License-Identifier: Apache-2.0
"""Build the wheel and the sdist of the commit at hand, and check them and what a release depends on.

Everything happens in clones of the commit: what is not committed is neither checked nor built. The results are in
``dist`` (wheel and sdist) and in ``build/release`` (the SBOM). Run it with the tools of ``make dist``.

Exit status 0 means that the commit can be released.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
DISTRIBUTION = "airflow-provider-analytics"
PACKAGE = "airflow_provider_analytics"
UV = CHECKOUT / ".tools" / "bin" / "uv"
TOOLS = Path(sys.executable).parent
#: The pins that the SBOM lists.
PINS = "constraints/airflow-3.3.2.txt"
DIST = CHECKOUT / "dist"
SBOM = CHECKOUT / "build" / "release" / f"{DISTRIBUTION}.cdx.json"
#: The commit that the files in ``dist`` were built from.
BUILT_COMMIT = CHECKOUT / "build" / "release" / "commit"
METADATA_FILES = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
#: What actionlint checks, without what depends on the machine; zizmor judges the security.
ACTIONLINT = ("--profile=correctness", "--strict-exit", "--shellcheck=", "--pyflakes=")


class ReleaseError(Exception):
    """A problem that prevents a release."""


@dataclass(frozen=True)
class Release:
    """The commit at hand.

    :param clone: a clone of it.
    :param work: folder for what the checks make.
    :param wheel: the wheel; it exists after :func:`builds`.
    :param sdist: the sdist, likewise.
    :param tags: its tags.
    """

    clone: Path
    work: Path
    wheel: Path
    sdist: Path
    tags: Sequence[str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tagged", action="store_true", help="fail unless the commit has its tag")
    must_be_tagged = parser.parse_args().tagged
    changed = run("git", "status", "--porcelain").splitlines()
    if changed:
        say(f"note    {len(changed)} uncommitted changes are neither checked nor built")
    tags = run("git", "tag", "--points-at", "HEAD", "--list", "v*").split()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        work = Path(folder)
        clone = clone_into(work / "one" / "checkout")
        stem = f"{PACKAGE}-{version_of(clone)}"
        release = Release(clone, work, DIST / f"{stem}-py3-none-any.whl", DIST / f"{stem}.tar.gz", tags)
        for check in (versions, builds, contents, metadata, sbom, workflows):
            title = check.__name__
            if "builds" in failed:
                say(f"not run {title}: nothing was built")
                continue
            try:
                say(f"ok      {title}: {check(release)}")
            except ReleaseError as error:
                say(f"FAILED  {title}: {error}")
                failed.append(title)
    if must_be_tagged and not tags:
        failed.append("the commit has no tag v<version>")
    say(f"Cannot be released: {', '.join(failed)}" if failed else "Can be released")
    return int(bool(failed))


def version_of(checkout: Path) -> str:
    text = (checkout / PACKAGE / "__init__.py").read_text()
    [version] = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return str(version)


def versions(release: Release) -> str:
    """Compare the version, the newest heading of the changelog, and the tags of the commit."""
    version = version_of(release.clone)
    problem = version_problem(version, (release.clone / "CHANGELOG.md").read_text(), release.tags)
    if problem:
        raise ReleaseError(problem)
    return f"{version} in the package and in CHANGELOG.md, {f'tagged {release.tags[0]}' if release.tags else 'no tag'}"


def version_problem(version: str, changelog: str, tags: Sequence[str]) -> str:
    """Return what does not fit together, or an empty text.

    A version is developed under the heading ``<version> (unreleased)``, and released under ``<version> (<date>)``.
    """
    newest = re.search(r"^## .*$", changelog, re.MULTILINE)
    heading = newest[0] if newest else "none"
    found = re.fullmatch(r"## (\S+) \((unreleased|\d{4}-\d{2}-\d{2})\)", heading)
    if found is None:
        return f"the newest heading of CHANGELOG.md is no '## <version> (<date> or unreleased)': {heading}"
    if found[1] != version:
        return f"CHANGELOG.md begins with {found[1]}, the version of the package is {version}"
    if tags and list(tags) != [f"v{version}"]:
        return f"the commit is tagged {', '.join(tags)}, the version of the package is {version}"
    if tags and found[2] == "unreleased":
        return f"the commit is tagged {tags[0]}, CHANGELOG.md calls {version} unreleased"
    return ""


def builds(release: Release) -> str:
    """Build three times, so that the files depend on nothing but the commit.

    The second clone has another path, umask, time zone and language, and its files are years old. The third wheel is
    built from the sdist, without a repository.
    """
    again = clone_into(release.work / "another" / "and longer" / "folder", umask=0o077)
    for path in again.rglob("*"):
        os.utime(path, (978_307_200, 978_307_200), follow_symlinks=False)
    elsewhere = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHONHASHSEED": "1"}
    shutil.rmtree(DIST, ignore_errors=True)
    BUILT_COMMIT.unlink(missing_ok=True)
    build(release.clone, DIST, "--wheel", "--sdist")
    build(again, release.work / "again", "--wheel", "--sdist", umask=0o077, env=elsewhere)
    with tarfile.open(release.sdist) as archive:
        archive.extractall(release.work / "unpacked", filter="data")
    [source] = (release.work / "unpacked").iterdir()
    build(source, release.work / "from-sdist", "--wheel", umask=0o077, env=elsewhere)
    for made in (*(release.work / "again").glob("*.*"), *(release.work / "from-sdist").glob("*.*")):
        if made.read_bytes() != (DIST / made.name).read_bytes():
            raise ReleaseError(f"{made.parent.name}/{made.name} has other bytes than the first build")
    BUILT_COMMIT.parent.mkdir(parents=True, exist_ok=True)
    BUILT_COMMIT.write_text(run("git", "rev-parse", "HEAD"))
    sums = "; ".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in (release.wheel, release.sdist)
    )
    return f"the same bytes from two clones and from the sdist; {sums}"


def built_wheel() -> Path | None:
    """Return the wheel in ``dist``; None if it is not the wheel of this checkout."""
    if not BUILT_COMMIT.exists() or BUILT_COMMIT.read_text() != run("git", "rev-parse", "HEAD"):
        return None
    if run("git", "status", "--porcelain", "--", PACKAGE, "pyproject.toml", "README.md", "LICENSE"):
        return None
    [wheel] = DIST.glob("*.whl")
    return wheel


def clone_into(target: Path, *, umask: int = 0o022) -> Path:
    target.parent.mkdir(parents=True)
    run("git", "clone", "--quiet", str(CHECKOUT), str(target), umask=umask)
    return target


def build(source: Path, target: Path, *what: str, umask: int = 0o022, env: Mapping[str, str] | None = None) -> None:
    when = run("git", "log", "-1", "--format=%ct").strip()
    pins = ["--build-constraints", str(CHECKOUT / "constraints/release.txt"), "--require-hashes"]
    command = [str(UV), "build", "--quiet", *pins, *what, "--out-dir", str(target), str(source)]
    run(*command, env={"SOURCE_DATE_EPOCH": when, **(env or {})}, umask=umask)


def contents(release: Release) -> str:
    """Compare the files of the wheel with those of the package in the repository."""
    tracked = run("git", "ls-files", PACKAGE, cwd=release.clone).splitlines()
    with zipfile.ZipFile(release.wheel) as archive:
        problems = content_problems(archive.namelist(), tracked, release.wheel.name.partition("-py3-")[0])
    if problems:
        raise ReleaseError("; ".join(problems))
    return f"{len(tracked)} files of the package and the metadata, nothing else"


def content_problems(packed: Sequence[str], tracked: Sequence[str], stem: str) -> list[str]:
    """Return which files should not be in a wheel, and which are missing.

    :param stem: name and version, as in the name of the wheel.
    """
    expected = {*tracked, *(f"{stem}.dist-info/{name}" for name in METADATA_FILES)}
    is_test = re.compile(r"(^|/)(tests?|test_\w+\.py|conftest\.py)(/|$)")
    return [
        f"{name} {'is missing' if name in expected else 'is not expected'}" for name in sorted(expected ^ set(packed))
    ] + [f"{name} is a test" for name in packed if is_test.search(name)]


def metadata(release: Release) -> str:
    run(str(TOOLS / "twine"), "--no-color", "check", "--strict", str(release.wheel), str(release.sdist))
    return "twine check --strict passes for wheel and sdist"


def sbom(release: Release) -> str:
    """List what the wheel is installed with by the pins, as CycloneDX with the hashes that an installer accepts."""
    wanted, locked = release.work / "wanted.in", release.work / "locked.txt"
    wanted.write_text(f"{DISTRIBUTION} @ {release.wheel.as_uri()}\n")
    only = ("--no-emit-package", DISTRIBUTION, "--constraint", str(release.clone / PINS), "--generate-hashes")
    run(str(UV), "pip", "compile", "--quiet", *only, "--output-file", str(locked), str(wanted))
    run(
        *(str(TOOLS / "cyclonedx-py"), "requirements", "--output-reproducible", "--spec-version", "1.6"),
        *("--pyproject", str(release.clone / "pyproject.toml"), "--output-file", str(SBOM), str(locked)),
        env={"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()},
    )
    document = json.loads(SBOM.read_text())
    components = document["components"]
    unhashed = [component["name"] for component in components if '"SHA-256"' not in json.dumps(component)]
    if unhashed or "file:" in SBOM.read_text():
        raise ReleaseError(f"the SBOM has a path of this machine, or no hash of {', '.join(unhashed)}")
    return f"{SBOM.relative_to(CHECKOUT)} is valid: {len(components)} components with hashes, by {PINS}"


def workflows(release: Release) -> str:
    """Check the files for GitHub and GitLab: workflows, dependabot.yml, issue forms, and the examples for users."""
    folder = release.clone / ".github"
    examples = release.clone / "examples" / "ci"
    shutil.copy(examples / "github.yml", folder / "workflows" / "websites.yml")
    gitlab = examples / "gitlab.yml"
    files = sorted(str(path) for path in (folder / "workflows").glob("*.yml"))
    forms = sorted(str(path) for path in (folder / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
    run(str(TOOLS / "jactionlint"), *ACTIONLINT, *files, cwd=release.clone)
    run(str(TOOLS / "zizmor"), "--offline", "--no-progress", str(folder), cwd=release.clone)
    for schema, *paths in (
        ("vendor.github-workflows", *files),
        ("custom.github-workflows-require-timeout", *files),
        ("vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(gitlab)),
        ("vendor.dependabot", str(folder / "dependabot.yml")),
        ("vendor.github-issue-forms", *forms),
        ("vendor.github-issue-config", str(folder / "ISSUE_TEMPLATE" / "config.yml")),
    ):
        run(str(TOOLS / "check-jsonschema"), "--builtin-schema", schema, *paths)
    return f"{len(files)} workflows, dependabot.yml and {len(forms)} forms pass actionlint's checks, zizmor and schemas"


def run(*command: str, env: Mapping[str, str] | None = None, cwd: Path = CHECKOUT, umask: int = 0o022) -> str:
    """Run a command to its end and return its output.

    :raises ReleaseError: with its output, if it failed.
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
