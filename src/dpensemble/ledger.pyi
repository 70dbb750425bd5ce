from dpensemble.server import *
