"""Starts the emulator as a child process, for tests and development."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Optional

KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
"""The emulators' well-known key. It is public."""

PROGRAM = Path(__file__).parent / "bin" / "cdb-emulator"
"""The path of the program."""


class Emulator:
    """An emulator on a free port, with its data in memory.

    ``options`` are options of the program, see ``cdb-emulator --help``. Use it in a ``with`` statement, or call
    ``stop``.
    """

    def __init__(self, *options: str):
        port = ["--port", "0"] if _value_of(options, "--port") is None else []
        self._process = subprocess.Popen(
            [PROGRAM, *port, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self._process.stdout.readline()
        found = re.search(r"https?://\S+", line)
        if not found:
            reason = self._process.stderr.read().strip()
            self.stop()
            raise RuntimeError(f"cdb-emulator ended before it was ready: {reason}")
        self.endpoint: str = found[0]
        self.key = _value_of(options, "--key") or KEY
        self.connection_string = f"AccountEndpoint={self.endpoint};AccountKey={self.key};"

    def stop(self) -> None:
        """Stops the emulator. Data in memory is lost."""
        self._process.terminate()
        self._process.communicate()

    def __enter__(self) -> "Emulator":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _value_of(options: tuple[str, ...], name: str) -> Optional[str]:
    """Returns the value of an option, given as ``--name value`` or ``--name=value``."""
    for option, following in zip(options, [*options[1:], ""]):
        if option == name:
            return following
        if option.startswith(f"{name}="):
            return option.removeprefix(f"{name}=")
    return None


def main() -> None:
    """The command: becomes the program."""
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])
