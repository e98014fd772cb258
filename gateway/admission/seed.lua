-- Take what was spent of budgets that the store knows nothing of; one that was heard of meanwhile stays as it is.
--
-- KEYS: leases, ledger, then the budgets' scopes. ARGV: now, then for each budget what was spent, by when (ms), and its period: doubles.

for i = 3, #KEYS do
  local spent, at, period = from_bytes('ddd', ARGV[i - 1])
  local scope, ends = scope_of(call('GET', KEYS[i])), period_end(at, period)
  if scope[SEEDED] == 0 then
    scope[SEEDED], scope[DRAINED], scope[FIRST_PLACE], scope[FIRST_PLACE + 1] = 1, ends, spent, at
    call('SET', KEYS[i], to_bytes(SCOPE, unpack(scope, LEASES, LAST_FIGURE)))
    if scope[LEASES] == 0 then call('PEXPIREAT', KEYS[i], ends) end
  end
end
return 1
