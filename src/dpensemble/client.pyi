from dpensemble.server.client import *
