"""`workorders work-orders export`: work orders as a file."""

import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer

from workorders.cli import filters
from workorders.cli.connections import connect
from workorders.cli.options import Database, argument, option, takes
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import export as exports
from workorders.core.history.filters import Filter


@takes(wanted=filters.chosen)
def export(
    file: Annotated[Path, argument("FILE", "New file, created when it is complete.")],
    *,
    format_: Annotated[
        str | None, option("FORM", "Format jsonl or csv; the file's suffix if not given.", "--format")
    ] = None,
    wanted: Filter,
    database: Database = None,
) -> None:
    """Write work orders to a JSON Lines or CSV file.

    The oldest is the first. Work orders that are created meanwhile are not in it.

    Examples:
      workorders work-orders export failed.jsonl --state failed --since 7d
      workorders work-orders export ward.csv --text "ward W13" --trigger orders
    """
    name = format_ or file.suffix.removeprefix(".")
    chosen = next((known for known in exports.FORMATS if known == name), None)
    if chosen is None:
        raise typer.BadParameter(f"expected jsonl or csv; got {name!r}.", param_hint="--format")
    if file.exists():
        raise ConfigurationError(f"The file {file} already exists; nothing was exported; name another.")
    with connect(database) as connection:
        size = _write(file, exports.parts(connection, wanted, chosen))
    print(f"{file} is complete and has {size:,} bytes.")


def _write(file: Path, parts: Iterable[bytes]) -> int:
    """Write a file that gets its name when it is complete, and that only its owner may read; return its bytes.

    Raises:
        ConfigurationError: it cannot be written.
    """
    try:
        with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", suffix=".part", delete=False) as incomplete:
            try:
                incomplete.writelines(parts)
                incomplete.flush()
                os.fsync(incomplete.fileno())
                Path(incomplete.name).replace(file)
            except BaseException:
                Path(incomplete.name).unlink()
                raise
    except OSError as error:
        raise ConfigurationError(
            f"The export could not be written to {file} ({error.strerror}); no file of that name was created; name "
            f"another one."
        ) from error
    return file.stat().st_size
