-- Say how buckets are now. Nothing is written.
--
-- KEYS: leases, ledger, then the scopes, those of budgets first. ARGV: now, then the scopes' groups. The reply is that about a row, see
-- rows.lua: levels, or the budgets of which nothing is known.

local keys, missing = {}, {}
for g = 1, #KEYS - 2 do keys[g] = KEYS[g + 2] end
local row = groups_of(ARGV, 1, #keys)
local opened = open_row(row, keys)
for g = 1, #keys do
  if is_budget(keys[g]) and opened[g][SEEDED] == 0 then missing[#missing + 1] = g - 1 end
end
if missing[1] then return encode({UNSEEDED, now, 0, missing, {}, 0}) end
return encode({GRANTED, now, 0, levels_of(row, opened), {}, 0})
