-- How many web orders were shipped from several warehouses and not returned?
SELECT
  count(DISTINCT ws_order_number) AS orders,
  sum(ws_ext_ship_cost) AS shipping,
  sum(ws_net_profit) AS profit
FROM web_sales
JOIN date_dim ON d_date_sk = ws_ship_date_sk
JOIN customer_address ON ca_address_sk = ws_ship_addr_sk
JOIN web_site ON web_site_sk = ws_web_site_sk
WHERE d_date BETWEEN DATE'1999-02-01' AND DATE'1999-08-01'
  AND ca_state IN ('GA', 'IL', 'IN', 'KY', 'MO', 'NC', 'OH', 'TX', 'VA')
  AND EXISTS (
    SELECT 1
    FROM web_sales AS other
    WHERE other.ws_order_number = web_sales.ws_order_number
      AND other.ws_warehouse_sk <> web_sales.ws_warehouse_sk
  )
  AND NOT EXISTS (
    SELECT 1 FROM web_returns WHERE wr_order_number = web_sales.ws_order_number
  )
