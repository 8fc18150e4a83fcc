"""Runs commands in this process."""

from typer.testing import CliRunner, Result

from swiftlet.cli.main import REFUSED, app


def swiftlet(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refusal(result: Result) -> str:
    """The one sentence of a command that was refused."""
    assert result.exit_code == REFUSED, result.output
    (sentence,) = [line for line in result.stderr.splitlines() if line.startswith("swiftlet: ")]
    return sentence.removeprefix("swiftlet: ")
