"""An engine that a trigger file names is made by its import path, or refused with what to do."""

import sys
from types import ModuleType

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.engines import load_engine


class Elsewhere:
    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id

    def submit(self, batch: int, epoch: int) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("shop_engines")
    made.__dict__.update(Elsewhere=Elsewhere, Nothing=lambda *_: None, Strict=lambda: None)
    monkeypatch.setitem(sys.modules, "shop_engines", made)


def test_an_engine_gets_its_connection() -> None:
    engine = load_engine("shop_engines.Elsewhere", "emr")
    assert isinstance(engine, Elsewhere)
    assert engine.connection_id == "emr"


@pytest.mark.parametrize("path", ["nowhere_at_all.Engine", "shop_engines.Missing", "shop_engines.Strict"])
def test_an_engine_that_cannot_be_made_is_named_with_the_cause(path: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"The engine {path} .* was not submitted; correct"):
        load_engine(path, "emr")


def test_an_engine_without_submit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no method submit\(batch, epoch\)"):
        load_engine("shop_engines.Nothing", "emr")
