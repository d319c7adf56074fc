KNOWN = ()
