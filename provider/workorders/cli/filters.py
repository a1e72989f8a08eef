"""The options that select work orders, shared by all commands that have them."""

from datetime import datetime
from typing import Annotated, Final

from workorders.cli.options import OfTrigger, option, parse_time
from workorders.core.history.filters import Filter
from workorders.core.states import WorkOrderState

_SINCE: Final = "Created since: 15m, 2h or 7d ago, or 2026-03-01T14:30."


def chosen(
    *,
    trigger: OfTrigger = None,
    workflow: Annotated[str | None, option("NAME", "Only for this workflow.", "--workflow")] = None,
    state: Annotated[
        WorkOrderState | None, option("STATE", f"Only in this state: {', '.join(WorkOrderState)}.", "--state")
    ] = None,
    rejection: Annotated[
        str | None, option("CODE", "Only rejected for this reason, such as not-json.", "--rejection")
    ] = None,
    since: Annotated[datetime | None, option("TIME", _SINCE, "--since", parser=parse_time)] = None,
    until: Annotated[datetime | None, option("TIME", "Created before this time.", "--until", parser=parse_time)] = None,
    stream: Annotated[
        str | None, option("TEXT", "Only streams with this prefix, such as orders/0@.", "--stream")
    ] = None,
    from_position: Annotated[
        int | None, option("N", "Only from this position of the stream.", "--from-position")
    ] = None,
    to_position: Annotated[int | None, option("N", "Only before this position of the stream.", "--to-position")] = None,
    ordering_key: Annotated[
        str | None, option("VALUE", "Only with this value of the ordering key.", "--ordering-key")
    ] = None,
    text: Annotated[
        str | None, option("WORDS", "Only with these words (or prefix*) in body or rejection.", "--text")
    ] = None,
) -> Filter:
    """Return the filter that the options ask for, which are named after its fields."""
    return Filter(**locals())
