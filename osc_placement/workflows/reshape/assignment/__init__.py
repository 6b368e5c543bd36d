"""Which target the allocations of a reshape go to: pure, and exact.

``search`` is the way in, ``demand`` the questions and answers as values. ``lot`` is what
is placed, ``strategy`` places it as preferred, ``forced`` tells what could not be
otherwise, ``misfit`` who is in the way, and ``solver`` proves.

The proofs are Z3's (z3-solver, MIT, one wheel without dependencies, packaged by the
distributions): it reasons in exact integers and stops on time. HiGHS and SciPy decide
in floating point, so their "infeasible" is no proof. OR-Tools is faster, but takes 240 MB
with pandas, and pins protobuf to one minor version beside OpenStack's own constraints.
python-constraint knows neither capacities nor a time limit. Z3 is imported when
placing one after the other does not settle it, which is seldom.
"""
