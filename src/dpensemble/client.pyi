from dpensemble.server.client import *  # noqa: F403
