"""Writes the image's software bill of materials: packages of Python and of Debian, and encoders.

    python sbom.py PYTHON OUT

PYTHON is the interpreter of the environment that ships; OUT is CycloneDX in JSON. Needs the extra
`image`. Run in a stage of the same base image as the one that ships, with nothing added by apt.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

Component = dict[str, Any]

DEBIAN_FIELDS = r"${Package}\t${Version}\t${Architecture}\n"


def main() -> None:
    python, out = sys.argv[1:]
    maker = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    bill = json.loads(output_of(*maker, "--pyproject", "pyproject.toml", python))
    bill["components"] += [interpreter(python), *debian_packages(), *encoders()]
    text = json.dumps(bill, indent=1)
    if (mistake := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        sys.exit(f"sbom.py: the bill of materials is not CycloneDX 1.6: {mistake}")
    Path(out).write_text(f"{text}\n", "utf-8")


def interpreter(python: str) -> Component:
    """The Python interpreter, which may not be a Debian package in the image."""
    version = output_of(python, "-c", "import platform; print(platform.python_version())").strip()
    return component("platform", "python", version, f"pkg:generic/python@{version}")


def debian_packages() -> Iterator[Component]:
    """The installed Debian packages."""
    for line in output_of("dpkg-query", "--show", "--showformat", DEBIAN_FIELDS).splitlines():
        name, version, architecture = line.split("\t")
        purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
        yield component("library", name, version, purl)


def encoders() -> Iterator[Component]:
    """The encoders that ship, each with the hashes of its ONNX files."""
    for path in sorted(Path("swiftlet/encoders").glob("*/manifest.json")):
        manifest = json.loads(path.read_bytes())
        hashes = [
            {"alg": "SHA-256", "content": entry["sha256"]}
            for name, entry in manifest["files"].items()
            if name.endswith(".onnx")
        ]
        name = path.parent.name
        yield {
            "type": "machine-learning-model", "bom-ref": f"encoder {name}", "name": name,
            "hashes": hashes,
        }  # fmt: skip


def component(kind: str, name: str, version: str, purl: str) -> Component:
    """The entry of one package."""
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def output_of(*command: str) -> str:
    """The standard output of a command."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
