-- Put back leases that their worker goes on with and that are not here: lost with the store, or granted while it was away. What runs
-- counts, so nothing is tested. One that still waits here is served; one that lives is left as it is.
--
-- KEYS: leases, ledger, then for each lease: the lease, its tombstone, its row's scopes. ARGV: now, then for each lease: its ttl in ms,
-- the ledger's opening, its row (see rows.lua). The reply is the list of positions, from 0, of leases whose lives are over.

local over, key, arg, at = {}, 3, 2, 0
while key <= #KEYS do
  local id, ttl = sub(KEYS[key], #PREFIX + 7), tonumber(ARGV[arg])
  local asked = row_of(ARGV[arg + 2], ARGV[arg + 3], ARGV, arg + 3, KEYS, key + 1)
  local lease, done = read_lease(id), call('GET', KEYS[key + 1])
  if done and done ~= 'settled0' then
    over[#over + 1] = at
  elseif not lease or waits(lease) then
    local left, prior, order = '', nil, nil
    if lease then
      seldom().leave(id, lease)
      left, prior, order = lease.pool, seldom().claims_of(lease)
    end
    local new = commit(asked, open_row(asked.row, asked.keys), prior)
    for _, scope in ipairs(new.scopes) do scope.adopted = true end
    if lease then seldom().replace_lease(lease, new, prior, order, false) end
    new.ttl, new.used, new.grant, new.opened, new.noted = ttl, '', '', ARGV[arg + 1], 1
    write_lease(id, new, ttl)
    note('open', id, new.opened)
    dispatch(left)
  end
  key, arg, at = key + 2 + #asked.row, arg + 4 + #asked.row, at + 1
end
flush()
return over
