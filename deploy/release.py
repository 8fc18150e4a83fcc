"""Makes a release on this machine: version, commit, packages, image, bill of materials, tag.

    python deploy/release.py VERSION [--no-image]

It publishes nothing. After a failure, mend its cause and run the same command again. Needs the
extra `release`, and Docker unless there is to be no image.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from packaging.version import Version

VERSIONED = (
    "pyproject.toml",
    "CITATION.cff",
    "deploy/helm/swiftlet/Chart.yaml",
    "deploy/kubernetes/index-job/kustomization.yaml",
    "deploy/kubernetes/overlays/image/kustomization.yaml",
    "deploy/kubernetes/overlays/volume/kustomization.yaml",
)
"""The files that name the version of this tree."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("version", metavar="VERSION", help="such as 0.2.0")
    parser.add_argument("--no-image", action="store_true", help="make no image and no SBOM")
    arguments = parser.parse_args()
    version, image = arguments.version, f"swiftlet:{arguments.version}"
    old, date = check(version, with_image=not arguments.no_image)
    if version != old:
        set_version(old, version, date)
        run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist")
    packages = sorted(map(str, Path("dist").glob(f"swiftlet_retrieval-{version}[.-]*")))
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    if not arguments.no_image:
        run("make", "image", "sbom", f"TAG={image}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"Swiftlet {version}")
    branch = output_of("git", "branch", "--show-current")
    print(f"Version {version} is made and tagged, but not published. To publish it:")
    print(f"  git push origin {branch} v{version}   # .github/workflows/release.yml does the rest")
    print(f"  twine upload {' '.join(packages)}   # or the packages by hand")


def check(version: str, *, with_image: bool) -> tuple[str, str]:
    """The version of this tree, and the date in the changelog; everything is checked first."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        refuse(f"VERSION is {version!r}; three numbers such as 0.2.0 are expected")
    if changed := output_of("git", "status", "--porcelain"):
        paths = ", ".join(line.split()[-1] for line in changed.splitlines()[:3])
        refuse(f"the tree has changes ({paths}); commit or remove them first")
    tags = output_of("git", "tag", "--list", "v[0-9]*").split()
    if f"v{version}" in tags:
        refuse(f"the tag v{version} exists; choose a newer version")
    (old,) = re.findall(r'(?m)^version = "(.*)"$', Path("pyproject.toml").read_text("utf-8"))
    newest = max((old, *(tag[1:] for tag in tags)), key=Version)
    if Version(version) < Version(newest):
        refuse(f"VERSION is {version}, which is older than {newest}; choose a newer one")
    heading = rf"(?m)^## {re.escape(version)} — (\d{{4}}-\d\d-\d\d)$"
    date = re.search(heading, Path("CHANGELOG.md").read_text("utf-8"))
    if date is None:
        refuse(
            f'CHANGELOG.md has no heading "## {version} — YYYY-MM-DD"; put one below '
            '"## Unreleased", above the changes of this version'
        )
    if with_image and subprocess.call("docker version >/dev/null 2>&1", shell=True):
        refuse("no Docker daemon answers; start it, or leave the image out: RELEASE=--no-image")
    return old, date[1]


def set_version(old: str, new: str, date: str) -> None:
    pattern = rf'(?m)^(\s*(?:version|appVersion|newTag)(?: =|:) "?){re.escape(old)}(?="?$)'
    for name in VERSIONED:
        path = Path(name)
        text, count = re.subn(pattern, rf"\g<1>{new}", path.read_text("utf-8"))
        if not count:
            refuse(f"{name} does not name the version {old}; correct it")
        path.write_text(re.sub(r"(?m)^date-released: .*$", f"date-released: {date}", text), "utf-8")


def run(*command: str) -> None:
    print("+", *command, flush=True)
    if status := subprocess.call(command):
        refuse(f"{command[0]} ended with status {status}; mend the cause, and run this again")


def output_of(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def refuse(sentence: str) -> NoReturn:
    print(f"make release: {sentence}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
