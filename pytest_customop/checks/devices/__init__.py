"""One device compared with another, where a mark runs on two or more.

The first device of the mark that is here is the reference, the CPU if it is among them. A mark that runs
on one device has no such item.
"""
