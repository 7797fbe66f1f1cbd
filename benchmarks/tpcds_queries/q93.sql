-- What do customers who returned for some reasons pay for the items that they keep?
SELECT
  ss_customer_sk,
  sum((ss_quantity - coalesce(sr_return_quantity, 0)) * ss_sales_price) AS paid
FROM store_sales
JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
JOIN reason ON r_reason_sk = sr_reason_sk
WHERE r_reason_desc LIKE '%not%'
GROUP BY ss_customer_sk
ORDER BY paid, ss_customer_sk
LIMIT 100
