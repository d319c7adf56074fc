"""One device compared with another, if a mark runs on two or more.

The reference is the CPU if it is a device of the mark, else the mark's first device that is available. A
mark that runs on one device has no such item.
"""
