-- Renew leases, and post what they have used so far.
--
-- KEYS: leases, ledger, then the leases. ARGV: now, then the figures of each lease (doubles by unit). The reply is the list
-- of positions, from 0, of leases that live no more, or wait for all that is known here: their worker goes on with them.

local lost = {}
for i = 3, #KEYS do
  local id = sub(KEYS[i], #PREFIX + 7)
  local lease = read_lease(id)
  if lease and not waits(lease) then
    local used = {from_bytes(FIGURES, ARGV[i - 1])}
    lease.used = ARGV[i - 1]
    post_all(lease, used[REQUEST + 1] > 0, used)
    write_lease(id, lease, lease.ttl)
  else
    lost[#lost + 1] = i - 3
  end
end
flush()
return lost
