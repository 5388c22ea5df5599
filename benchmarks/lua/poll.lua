-- Many connections that wait for one message each, ack it, and wait again; a connection that has nothing to ack waits.
-- Arguments: path of the queue, token. Run it with one thread: whoever is free acks what any of them has received.
settled, failed = 0, 0
local threads, receipts, receive = {}, {}, nil

function setup(thread)
   table.insert(threads, thread)
end

function init(args)
   path = args[1]
   wrk.headers["Authorization"] = "Bearer " .. args[2]
   wrk.headers["Content-Type"] = "application/json"
   receive = wrk.format("POST", path .. "/receive", nil, '{"limit":1,"wait_ms":20000}')
end

function request()
   local receipt = table.remove(receipts)
   if receipt then
      return wrk.format("POST", path .. "/ack", nil, '{"receipts":["' .. receipt .. '"]}')
   end
   return receive
end

function response(status, headers, body)
   if status >= 300 or body:find('"error"', 1, true) then
      failed = failed + 1
      return
   end
   local receipt = body:match('"receipt":"([^"]+)"')
   if receipt then
      receipts[#receipts + 1] = receipt
   elseif not body:find('"leases"', 1, true) then
      settled = settled + 1
   end
end

function done(summary, latency, requests)
   local count, refused = 0, 0
   for _, thread in ipairs(threads) do
      count = count + thread:get("settled")
      refused = refused + thread:get("failed")
   end
   local errors = summary.errors
   io.write(string.format(
      '\n{"count":%d,"failed":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f}\n',
      count, refused + errors.connect + errors.read + errors.write,
      summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
