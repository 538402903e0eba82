"""The admission pack: everything that the operator's webhook would refuse, refused for every stack of an
organisation.
"""
