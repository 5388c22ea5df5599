-- How Courier's own API sends, receives and acks.
return function(path, limit)
   return {
      send = { "POST", path .. "/messages" },
      receive = { "POST", path .. "/receive", '{"limit":' .. limit .. "}" },
      refusal = '"error"',
      ack = function(body)
         local receipts = {}
         for receipt in body:gmatch('"receipt":"([^"]+)"') do
            receipts[#receipts + 1] = receipt
         end
         return { "POST", path .. "/ack", '{"receipts":["' .. table.concat(receipts, '","') .. '"]}' }, #receipts
      end,
   }
end
