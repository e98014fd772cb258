-- Note how upstreams do while their attempts go on, and give the turns that this makes room for.
--
-- KEYS: leases, ledger, then the leases. ARGV: now, then two for each lease: how it does (see `end_attempt`), and for how long its
-- upstream's account has nothing left, in ms. Leases that live no more are passed over.

for i = 3, #KEYS do
  local id, ending = sub(KEYS[i], #PREFIX + 7), ARGV[2 * i - 4]
  local lease = read_lease(id)
  if lease and lease.seat ~= '' then
    local seat = decode(lease.seat)
    queue().note(id, lease, seat, ending)
    queue().exhaust(seat, ending, tonumber(ARGV[2 * i - 3]))
    dispatch(lease.pool)
  end
end
flush()
return 1
