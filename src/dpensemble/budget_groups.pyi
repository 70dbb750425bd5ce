from dpensemble.allocation.budget_groups import *
