from tests.data.conftest import legs_data

__all__ = ["legs_data"]
