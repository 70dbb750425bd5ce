from dpensemble.server import *  # noqa: F403
