-- Take what was spent of budgets. Of one that the store knows nothing of that is the figure; one that was heard of meanwhile is raised to
-- it, never lowered: what was posted here is in the ledger, sooner or later, and what was lost here is there too.
--
-- KEYS: leases, ledger, then the budgets' scopes. ARGV: now, then for each budget what was spent, by when (ms), and its period: doubles.

for i = 3, #KEYS do
  local spent, at, period = from_bytes('ddd', ARGV[i - 1])
  local scope, ends = scope_of(call('GET', KEYS[i])), period_end(at, period)
  local known_at = scope[FIRST_PLACE + 1]
  if scope[SEEDED] == 0 or known_at < ends then
    local known = 0
    if scope[SEEDED] == 1 then
      known = at < period_end(known_at, period) and scope[FIRST_PLACE] or 0
      at = max(at, known_at)
    end
    scope[SEEDED], scope[DRAINED], scope[FIRST_PLACE], scope[FIRST_PLACE + 1] = 1, ends, max(known, spent), at
    call('SET', KEYS[i], to_bytes(SCOPE, unpack(scope, LEASES, LAST_FIGURE)))
    if scope[LEASES] == 0 then call('PEXPIREAT', KEYS[i], ends) end
  end
end
return 1
