-- Take what was spent of budgets that the store knows nothing of; one that was heard of meanwhile stays as it is.
--
-- KEYS: leases, ledger, then the budgets' scopes. ARGV: now, then for each budget what was spent, by when (ms), and its period: doubles.

for i = 3, #KEYS do
  local spent, at, period = from_bytes('ddd', ARGV[i - 1])
  local scope, ends = scope_of(nil), period_end(at, period)
  scope[DRAINED], scope[FIRST_PLACE], scope[FIRST_PLACE + 1] = ends, spent, at
  call('SET', KEYS[i], to_bytes(SCOPE, unpack(scope, LEASES, LAST_FIGURE)), 'NX', 'PXAT', ends)
end
return 1
