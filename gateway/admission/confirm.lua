-- Take the turn that has come: from now on the lease is like any other. KEYS: leases, ledger, the lease. ARGV: now. The reply is that of
-- acquire.lua, its row among those that were asked about; a waiter whose turn has not come is told so.

local id = sub(KEYS[3], #PREFIX + 7)
local lease = seldom().read_lease(id)
if not lease then return encode({SPENT, now, 0, {}, {}, 0}) end
if lease.turn >= 0 then
  epoch = tonumber(call('GET', PREFIX .. 'authz_epoch') or 0)
  lease.grant = encode({GRANTED, now, lease.turn, levels_of(lease.row, lease.scopes), {}, seldom().watched(lease), epoch})
  if lease.noted == 0 then call('XADD', KEYS[2], '*', 'kind', 'open', 'id', id, 'blob', lease.opened) end
  lease.turn, lease.noted = -1, 1
  write_lease(id, lease, lease.ttl)
end
return seldom().said(lease)
