"""The options that select work orders, shared by all commands that have them."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from workorders.cli import times
from workorders.core.history.filters import Filter
from workorders.core.states import WorkOrderState

Trigger = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this trigger.", show_default=False)]
Workflow = Annotated[str | None, typer.Option(metavar="NAME", show_default=False, help="Only for this workflow.")]
State = Annotated[
    str | None,
    typer.Option(metavar="STATE", show_default=False, help=f"Only in this state: {', '.join(WorkOrderState)}."),
]
Rejection = Annotated[
    str | None,
    typer.Option(metavar="CODE", show_default=False, help="Only rejected for this reason, such as not-json."),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", show_default=False, help="Created since: 15m, 2h or 7d ago, or 2026-03-01T14:30."),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Created before this time.")]
Stream = Annotated[
    str | None,
    typer.Option(metavar="TEXT", show_default=False, help="Only streams with this prefix, such as orders/0@."),
]
FromPosition = Annotated[
    int | None, typer.Option(metavar="N", show_default=False, help="Only from this position of the stream.")
]
ToPosition = Annotated[
    int | None, typer.Option(metavar="N", show_default=False, help="Only before this position of the stream.")
]
Words = Annotated[
    str | None,
    typer.Option(
        "--text",
        metavar="WORDS",
        show_default=False,
        help="Only with these words (or prefix*) in body or rejection.",
    ),
]
Id = Annotated[UUID | None, typer.Argument(metavar="ID", help="Id of a single work order.", show_default=False)]

_ID: Final = "id_"


def as_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes a filter first the options that make it, before its own."""
    return _with(command, [option for option in _OPTIONS if option.name != _ID])


def as_id_and_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same, with the id of one work order as an argument."""
    return _with(command, _OPTIONS)


def _with(command: Callable[..., None], options: Sequence[Parameter]) -> Callable[..., None]:
    own = list(signature(command).parameters.values())[1:]
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*options, *own)]

    @wraps(command)
    def filtering(**given: Any) -> None:
        wanted = _chosen(**{option.name: given.pop(option.name) for option in options})
        command(wanted, **given)

    # Both are what Typer reads to know the options.
    filtering.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(filtering)["__signature__"] = Signature(parameters)
    return filtering


def _chosen(
    *,
    id_: Id = None,
    trigger: Trigger = None,
    workflow: Workflow = None,
    state: State = None,
    rejection: Rejection = None,
    since: Since = None,
    until: Until = None,
    stream: Stream = None,
    from_position: FromPosition = None,
    to_position: ToPosition = None,
    text: Words = None,
) -> Filter:
    """Return the filter that the options ask for.

    Raises:
        typer.BadParameter: a state or a time is none.
    """
    if state is not None and state not in [*WorkOrderState]:
        raise typer.BadParameter(f"expected one of {', '.join(WorkOrderState)}; got {state!r}.", param_hint="--state")
    return Filter(
        id=id_,
        trigger=trigger,
        workflow=workflow,
        state=state,
        reason=rejection,
        since=times.option("--since", since),
        until=times.option("--until", until),
        stream=stream,
        from_position=from_position,
        to_position=to_position,
        text=text,
    )


_OPTIONS: Final = tuple(signature(_chosen).parameters.values())
