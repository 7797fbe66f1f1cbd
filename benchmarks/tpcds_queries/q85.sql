-- Why do some groups of customers return web orders, and what do the returns cost?
SELECT
  left(r_reason_desc, 20) AS reason_text,
  round(avg(ws_quantity), 2) AS quantity,
  avg(wr_refunded_cash) AS refunded,
  avg(wr_fee) AS fee
FROM web_sales
JOIN web_returns ON wr_item_sk = ws_item_sk AND wr_order_number = ws_order_number
JOIN web_page ON wp_web_page_sk = ws_web_page_sk
JOIN customer_demographics AS refunded_to ON refunded_to.cd_demo_sk = wr_refunded_cdemo_sk
JOIN customer_demographics AS returned_by
  ON returned_by.cd_demo_sk = wr_returning_cdemo_sk
  AND returned_by.cd_marital_status = refunded_to.cd_marital_status
  AND returned_by.cd_education_status = refunded_to.cd_education_status
JOIN customer_address ON ca_address_sk = wr_refunded_addr_sk
JOIN date_dim ON d_date_sk = ws_sold_date_sk
JOIN reason ON r_reason_sk = wr_reason_sk
WHERE d_year BETWEEN 1998 AND 2002
  AND (
    refunded_to.cd_marital_status IN ('M', 'W') AND ws_sales_price >= 50
    OR refunded_to.cd_marital_status IN ('S', 'D', 'U') AND ws_sales_price < 150
  )
  AND ca_country = 'United States'
  AND (
    ca_state < 'M' AND ws_net_profit > -1000
    OR ca_state >= 'M' AND ws_net_profit BETWEEN -5000 AND 5000
  )
GROUP BY left(r_reason_desc, 20)
ORDER BY reason_text, quantity, refunded, fee
LIMIT 100
