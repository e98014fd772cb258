-- End leases that nobody renewed, a few at a time. KEYS: leases, ledger. ARGV: now. The reply is how many there were.

local ended = reap()
flush()
return ended
