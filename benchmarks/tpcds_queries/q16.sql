-- How many catalog orders were shipped from different warehouses and not returned?
SELECT
  count(DISTINCT cs_order_number) AS orders,
  sum(cs_ext_ship_cost) AS shipping,
  sum(cs_net_profit) AS profit
FROM catalog_sales
JOIN date_dim ON d_date_sk = cs_ship_date_sk
JOIN customer_address ON ca_address_sk = cs_ship_addr_sk
JOIN call_center ON cc_call_center_sk = cs_call_center_sk
WHERE d_date BETWEEN DATE'2001-04-01' AND DATE'2001-08-01'
  AND EXISTS (
    SELECT 1 FROM catalog_sales AS other
    WHERE other.cs_order_number = catalog_sales.cs_order_number
      AND other.cs_warehouse_sk IS DISTINCT FROM catalog_sales.cs_warehouse_sk
  )
  AND NOT EXISTS (
    SELECT 1 FROM catalog_returns WHERE cr_order_number = catalog_sales.cs_order_number
  )
