-- How the Anypoint dialect publishes, consumes and acknowledges.
local function values(body, name)
   local found = {}
   for value in body:gmatch('"' .. name .. '":"([^"]+)"') do
      found[#found + 1] = value
   end
   return found
end

return function(path, limit)
   local query = "/messages?pollingTime=0&lockTtl=3600000&batchSize=" .. limit
   return {
      send = { "PUT", path .. "/messages" },
      receive = { "GET", path .. query },
      refusal = '"failure"',
      ack = function(body)
         local ids, locks = values(body, "messageId"), values(body, "lockId")
         local acks = {}
         for i = 1, #locks do
            acks[i] = '{"messageId":"' .. ids[i] .. '","lockId":"' .. locks[i] .. '"}'
         end
         return { "DELETE", path .. "/messages", "[" .. table.concat(acks, ",") .. "]" }, #acks
      end,
   }
end
