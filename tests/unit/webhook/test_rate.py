from workorders.webhook.rate import Bucket


def test_a_burst_passes_then_as_many_as_time_lets() -> None:
    bucket = Bucket(2, 3)
    assert [bucket.take(0) for _ in range(4)] == [0, 0, 0, 1]
    assert [bucket.take(0.5) for _ in range(2)] == [0, 1]
    assert [bucket.take(100) for _ in range(4)] == [0, 0, 0, 1]


def test_a_slow_rate_says_how_long_to_wait() -> None:
    bucket = Bucket(0.1, 1)
    assert [bucket.take(0), bucket.take(0), bucket.take(4)] == [0, 10, 6]
    assert bucket.take(10) == 0
