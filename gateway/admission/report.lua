-- Note how upstreams do while their attempts go on, and give the turns that this makes room for.
--
-- KEYS: leases, ledger, then the leases. ARGV: now, then for each lease how its attempt does, as if it had ended (see `end_attempt`).
-- Leases that live no more are passed over.

for i = 3, #KEYS do
  local id = sub(KEYS[i], #PREFIX + 7)
  local lease = seldom().read_lease(id)
  if lease and lease.seat ~= '' then
    seldom().note(id, lease, decode(lease.seat), ARGV[i - 1])
    dispatch(lease.pool)
  end
end
flush()
return 1
