from dpensemble.accounting.schedule import *
