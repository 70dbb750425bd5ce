from dpensemble.guarantee import *
