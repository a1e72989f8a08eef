import pytest

from workorders.core.definitions.unique_names import require_unique_name
from workorders.core.exceptions import ConfigurationError


@pytest.mark.parametrize("source", ["b.yaml", "a.yaml"])
def test_the_second_definition_of_a_name_is_refused_also_in_the_same_source(source: str) -> None:
    taken: dict[str, str] = {}
    require_unique_name("trigger", "orders", "a.yaml", taken)
    require_unique_name("trigger", "visits", source, taken)
    with pytest.raises(
        ConfigurationError, match=rf"^{source}: name: trigger orders is already defined in a\.yaml; every trigger"
    ):
        require_unique_name("trigger", "orders", source, taken)
