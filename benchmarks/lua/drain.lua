-- Receive and ack from many connections and one thread, as pgbench does it: whoever is free acks what any of them has
-- received, or receives more. It ends when the queue is empty. Arguments: path of the queue, token, messages at a time.
local ffi = require("ffi")
ffi.cdef("typedef struct { long sec; long nsec; } moment; int clock_gettime(int clock, moment *now);")

settled, failed, first_at, last_at = 0, 0, 0, 0
local moment, threads, acks, receive, ack_path = ffi.new("moment"), {}, {}, nil, nil

local function now()
   ffi.C.clock_gettime(1, moment)
   return tonumber(moment.sec) + tonumber(moment.nsec) / 1e9
end

function setup(thread)
   table.insert(threads, thread)
end

function init(args)
   wrk.headers["Authorization"] = "Bearer " .. args[2]
   wrk.headers["Content-Type"] = "application/json"
   receive = wrk.format("POST", args[1] .. "/receive", nil, '{"limit":' .. args[3] .. "}")
   ack_path = args[1] .. "/ack"
end

function request()
   if first_at == 0 then
      first_at = now()
   end
   local receipts = table.remove(acks)
   if receipts then
      return wrk.format("POST", ack_path, nil, '{"receipts":["' .. table.concat(receipts, '","') .. '"]}')
   end
   return receive
end

function response(status, headers, body)
   if status >= 300 or body:find('"error"', 1, true) then
      failed = failed + 1
   elseif body:find('"results"', 1, true) then
      local _, count = body:gsub('"seq":', "")
      settled = settled + count
      last_at = now()
   else
      local receipts = {}
      for receipt in body:gmatch('"receipt":"([^"]+)"') do
         receipts[#receipts + 1] = receipt
      end
      if #receipts > 0 then
         acks[#acks + 1] = receipts
      else
         wrk.thread:stop()
      end
   end
end

function done(summary, latency, requests)
   local thread, errors = threads[1], summary.errors
   io.write(string.format(
      '\n{"count":%d,"failed":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f}\n',
      thread:get("settled"), thread:get("failed") + errors.connect + errors.read + errors.write + errors.timeout,
      thread:get("last_at") - thread:get("first_at"), latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
