-- Carry out the operator's word on deployments, all at once. Who waits for one hears of it at the next tick.
--
-- KEYS: leases, ledger. ARGV: now, the word (gateway.policy.admission.Word), then for each deployment its id and its credential. A reset
-- forgets how both did; what the operator said stays.

for i = 3, #ARGV, 2 do
  local found = read_condition(ARGV[i])
  if ARGV[2] == 'reset' then
    for _, field in ipairs(FIELDS) do
      if field ~= 'disabled' then found[field] = 0 end
    end
    found.probe = ''
    call('DEL', PREFIX .. 'cool:' .. ARGV[i + 1])
  else
    found.disabled = ARGV[2] == 'disable' and 1 or 0
  end
  write_condition(ARGV[i], found)
end
return 1
