import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSparkSession

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import SparkServerError
from workorders.kafka.spark import connect
from workorders.kafka.spark.connect import ConnectServer, ConnectSession

# Port 1 of the loopback interface: no process listens there.
SERVER = ConnectServer(name="warm", host="localhost", port=1)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sessions that were closed."""
    stopped: list[object] = []
    stop = ConnectSparkSession.stop

    def noted(session: ConnectSparkSession) -> None:
        stopped.append(session)
        stop(session)

    monkeypatch.setattr(connect, "_MAX_RETRIES", 0)
    monkeypatch.setattr(ConnectSparkSession, "stop", noted)
    return stopped


def test_a_session_whose_server_does_not_answer_is_closed_and_not_returned_by_the_next_call(
    stopped: list[object],
) -> None:
    with ConnectSession(SERVER, conf={}) as session:
        for tries in (1, 2):
            with pytest.raises(SparkServerError, match="could not be used"):
                session.open(1)
            assert len(stopped) == tries


def test_a_session_that_another_version_refuses_is_closed(
    stopped: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConnectSparkSession, "version", "3.5.0")
    with ConnectSession(SERVER, conf={}) as session:
        with pytest.raises(ConfigurationError, match=r"runs Spark 3\.5\.0"):
            session.open(1)
        assert len(stopped) == 1
