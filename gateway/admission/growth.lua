-- Rates that grow with use; the rules are those of gateway.policy.growth. It stands in `open_growth`, behind core.lua.
--
-- The scope of such a rate has three more doubles for each dimension, behind all others: the bucket's scale (thousandths), when its
-- window began (ms), and what was posted in it (units). Without them it is at its base.

local BASE, NARROW, WINDOWS = 1000, 160, 'dddddddddddddddddd'
local SCALE, BEGAN, POSTED = -8, -7, -6
local GROWS_BY, GROWS_OF, SHRINKS_BY, SHRINKS_OF = 6, 5, 2, 3

local function windows_of(text)
  if text and #text > NARROW then return {from_bytes(WINDOWS, text, NARROW + 1)} end
  return {BASE, 0, 0, BASE, 0, 0, BASE, 0, 0, BASE, 0, 0, BASE, 0, 0, BASE, 0, 0}
end

local function leak_until(scope, place, rate, at)
  scope[place] = max(0, scope[place] - rate * max(0, at - scope[place + 1]))
  scope[place + 1] = max(scope[place + 1], at)
end

local function next_scale(group, scale, posted, quota)
  if posted <= floor(quota / 2) then
    scale = max(BASE, floor(scale * SHRINKS_BY / SHRINKS_OF))
  elseif posted >= ceil(quota * 4 / 5) then
    scale = floor(scale * GROWS_BY / GROWS_OF)
  end
  return min(group.ceiling, scale)
end

-- Judge the windows of a bucket that are over. Each leaks at its own rate; one without use, at the base, begins with the next use.
local function pass_windows(scope, group, c)
  local windows, place, window = scope.windows, group[c], group.window
  local scale, began, posted = windows[place + SCALE], windows[place + BEGAN], windows[place + POSTED]
  while (posted > 0 or scale > BASE) and now >= began + window do
    local rate, ended = floor(group[c + RATE] * scale / BASE), began + window
    leak_until(scope, place, rate, ended)
    scale, began, posted = next_scale(group, scale, posted, floor(rate * window / group[c + PERIOD])), ended, 0
  end
  if posted == 0 and scale == BASE then began = now end
  windows[place + SCALE], windows[place + BEGAN], windows[place + POSTED] = scale, began, posted
end

-- A group with its rates as they are in force in a scope now.
local function in_force(group, scope)
  scope.in_force = scope.in_force or {}
  local known = scope.in_force[group]
  if known then return known end
  scope.windows = scope.windows or windows_of(scope.text)
  local found = {unpack(group, 1, group.last)}
  found.text, found.last, found.written = group.text, group.last, group
  for c = FIRST, group.last, CHARGE do
    if group[c + KIND] <= LEAKS then
      if now > scope[group[c] + 1] then pass_windows(scope, group, c) end
      local scale = scope.windows[group[c] + SCALE]
      found[c + CAPACITY], found[c + RATE] = floor(group[c + CAPACITY] * scale / BASE), floor(group[c + RATE] * scale / BASE)
    end
  end
  scope.in_force[group] = found
  return found
end

-- Count what is posted to a rate in its window; its scope stays until it is drained, and at its base again, whatever comes.
local function count_use(scope, group, c, units)
  local place, windows, written = group[c], scope.windows, group.written
  windows[place + POSTED] = min(MOST, windows[place + POSTED] + units)
  local scale = min(written.ceiling, floor(windows[place + SCALE] * GROWS_BY / GROWS_OF))
  local settled = windows[place + BEGAN] + written.window
  while scale > BASE do scale, settled = floor(scale * SHRINKS_BY / SHRINKS_OF), settled + written.window end
  scope[DRAINED] = max(scope[DRAINED], settled, scope[place + 1] + ceil(scope[place] / written[c + RATE]))
end

-- The windows of a scope to be written: of buckets that were only looked at, as they were.
local function packed_windows(scope)
  local windows, was = scope.windows, windows_of(scope.text)
  for place = FIRST_PLACE, windows and LAST_PLACE or 0, 3 do
    if scope[place / 3 - 2] == 1 then
      for figure = place + SCALE, place + POSTED do was[figure] = windows[figure] end
    end
  end
  return to_bytes(WINDOWS, unpack(was))
end

-- Put behind levels three numbers for each rate of a row that grows: scale, what was posted in its window, when that ends in ms.
local function add_growth(levels, row, opened)
  for g, group in ipairs(row) do
    for c = FIRST, group.written and group.last or 0, CHARGE do
      if group[c + KIND] <= LEAKS then
        local windows, place, n = opened[g].windows, group[c], #levels
        levels[n + 1], levels[n + 2] = windows[place + SCALE], windows[place + POSTED]
        levels[n + 3] = windows[place + BEGAN] + group.written.window - now
      end
    end
  end
end

return {in_force = in_force, count_use = count_use, packed_windows = packed_windows, add_growth = add_growth}
