-- End a lease and post what was used. After an expiry only the difference is posted, after a settlement nothing is written.
--
-- KEYS: leases, ledger, the lease, its tombstone. ARGV: now, 1 where the end is one of capacity, the figures used (msgpack, indexed by
-- unit), the ledger's closing, 1 where the lease is known to have been granted. The reply is two integers: now, and 1 where this call ended the lease.

local id = sub(KEYS[3], #PREFIX + 7)
local spends = ARGV[2] ~= '1'
local lease, first, keep_ms, opened = read_lease(id), 0, LATE_MS, ARGV[5] == '1'
if lease then
  if spends then post_all(lease, true, decode(ARGV[3])) end
  release_all(lease)
  drop_lease(id)
  first, keep_ms, opened = 1, 2 * lease.ttl, true
else
  local done = call('GET', KEYS[4])
  if done and sub(done, 1, 7) ~= 'expired' then return {now, 0} end
  if done then
    local ttl, keys, posted, row = decode(sub(done, 8))
    local late = {keys = keys, posted = posted, row = decode(row), taken = {}}
    for n = 1, #posted do late.taken[n] = 0 end
    if spends then post_all(late, false, decode(ARGV[3])) end
    keep_ms, opened = 2 * ttl, true
  end
end
call('SET', KEYS[4], 'settled' .. ARGV[3], 'PX', keep_ms)
if opened then note('close', id, ARGV[4]) end
flush()
return {now, first}
