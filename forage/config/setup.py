"""Former names of `forage.config.resolve` and `forage.config.run_config`."""

from forage.config.resolve import from_config as from_config
from forage.config.resolve import resolve as make_setup  # noqa: F401
from forage.config.run_config import RunConfig as Setup  # noqa: F401
from forage.config.run_config import shortened as shortened
from forage.core.mesh import prepare_devices as prepare_devices
