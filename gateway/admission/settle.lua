-- End a lease and post what was used. After an expiry only the difference is posted, after a settlement nothing is written.
--
-- KEYS: leases, ledger, the lease, its tombstone. ARGV: now, 1 where the end is one of capacity, the figures used (doubles by
-- unit), the ledger's closing, 1 where there is to be a row, how the attempt ended (see `end_attempt`); where there is something
-- to learn the org, the model, tokens a byte and tokens of an answer. The reply is now, and 1 where there is a lease that this call
-- or one before it ended; for the call that did, then the list of what is spent of its budgets; where this one learned, then what is
-- known (see `learn`). The tombstone is 'settled', then that
-- second integer; an end that is certain of a row brings a lease to light where only a waiter was given up.

local id = sub(KEYS[3], #PREFIX + 7)
local spends, used = ARGV[2] ~= '1', {from_bytes(FIGURES, ARGV[3])}
local lease, keep_ms, opened, spent = read_lease(id), LATE_MS, ARGV[5] == '1' and 1 or 0, {}
if lease and waits(lease) and lease.noted == 0 then
  drop_lease(id)
  seldom().withdraw(id, lease, opened == 1 and ARGV[4] or nil)
  flush()
  return {now, opened}
end
if lease then
  if lease.waiter then seldom().leave(id, lease) end
  if spends then
    post_all(lease, true, used, used)
    spent = spent_of(lease)
  end
  end_attempt(id, lease, ARGV[6])
  release_all(lease)
  drop_lease(id)
  keep_ms, opened = 2 * lease.ttl, 1
else
  local done = call('GET', KEYS[4])
  local said = done and sub(done, 1, 7) ~= 'expired' and tonumber(sub(done, 8))
  if said and said >= opened then return {now, said} end
  if done and not said then
    local ttl, keys, posted, texts = decode(sub(done, 8))
    local row = groups_of(texts, 0, #texts)
    local late = {keys = keys, posted = posted, row = row, taken = {}, scopes = open_row(row, keys)}
    for n = 1, #posted do late.taken[n] = 0 end
    if spends then
      post_all(late, false, used, used)
      spent = spent_of(late)
    end
    keep_ms, opened = 2 * ttl, 1
  end
end
call('SET', KEYS[4], 'settled' .. opened, 'PX', keep_ms)
if opened == 1 then note('close', id, ARGV[4]) end
if lease then dispatch(lease.pool) end
flush()
if not ARGV[7] then return {now, opened, spent} end
return {now, opened, spent, learn(ARGV[7], ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10]))}
